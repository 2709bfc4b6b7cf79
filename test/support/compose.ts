/** docker-compose.yml as a YAML parser reads it, so that tests ask for what it says and not for how it is written. */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';

export interface Service {
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
