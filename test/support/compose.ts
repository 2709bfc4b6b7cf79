/**
 * docker-compose.yml as a YAML parser reads it, so that tests ask for what it says and not for how it is written; and what keeps
 * a stack of a test apart.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { root } from './docker.ts';

interface Service {
  image: string;
  build?: string;
  pull_policy?: string;
  profiles?: string[];
  command?: string[];
  /** Null: passed on if it is set. */
  environment?: Record<string, string | null>;
  healthcheck?: { test: string[]; interval: string; timeout: string; start_period?: string; retries: number };
  depends_on?: Record<string, { condition: string }>;
  ports?: string[];
  volumes?: string[];
  [more: string]: unknown;
}

export interface Compose {
  services: Record<'shelfdesk' | 'page' | 'sandbox' | 'postgres' | 'redis', Service>;
  volumes: Record<string, unknown>;
  configs: Record<'program_role', { content: string }>;
  [more: string]: unknown;
}

export function readCompose(): Compose {
  const text = readFileSync(new URL('../../docker-compose.yml', import.meta.url), 'utf8');
  return parse(text, { merge: true }) as Compose;
}

/**
 * The environment that keeps `docker compose` of a test apart from any other Shelfdesk of this machine: volumes and an image of
 * its own, no ports, which may be taken, and no .env. The override is written to `folder`.
 */
export function composeApart(folder: string, project: string): Record<string, string> {
  const [override, none] = [join(folder, 'apart.yml'), join(folder, 'none.env')];
  writeFileSync(
    override,
    `
services:
  shelfdesk: { image: ${project} }
  page: { image: ${project}, ports: !reset [] }
  sandbox: { image: ${project} }
  postgres: { ports: !reset [] }
  redis: { ports: !reset [] }
`,
  );
  writeFileSync(none, '');
  return {
    COMPOSE_PROJECT_NAME: project,
    COMPOSE_FILE: [join(root, 'docker-compose.yml'), override].join(':'),
    COMPOSE_ENV_FILES: none,
    COMPOSE_PROFILES: '',
    COMPOSE_PROGRESS: 'quiet',
  };
}
