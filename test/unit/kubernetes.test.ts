/** The manifest for Kubernetes against this program: its commands, settings, ports and names. Its shape is judged by integration/kubernetes.test.ts. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { readConfig } from '../../src/app/config.ts';
import { settings } from '../../src/app/settings.ts';
import { demandSafe } from '../../src/ops/page/server.ts';
import { root } from '../support/docker.ts';
import { program } from '../support/program.ts';

interface Container {
  name: string;
  image: string;
  args: string[];
  env?: { name: string; value: string }[];
  envFrom: { secretRef: { name: string } }[];
  ports?: { name: string; containerPort: number }[];
  resources: { limits: { memory: string } };
  securityContext: Record<string, unknown>;
  [probe: `${string}Probe`]: { httpGet: { path: string; port: string } };
}
interface Resource {
  kind: string;
  metadata: { name: string };
  stringData?: Record<string, string>;
  spec: {
    selector?: { matchLabels?: Record<string, string> } & Record<string, unknown>;
    template: {
      metadata: { labels: Record<string, string> };
      spec: { containers: Container[]; enableServiceLinks: boolean; securityContext: Record<string, unknown> };
    };
    ports?: { port: number; targetPort: string }[];
  };
}

const resources = parseAllDocuments(readFileSync(join(root, 'docs/how-to/kubernetes.yaml'), 'utf8')).map(
  document => document.toJS() as Resource,
);
const named = (kind: string, name: string) =>
  resources.find(one => one.kind === kind && one.metadata.name === `shelfdesk${name}`)!;
const [migrate, worker, page] = [
  named('Job', '-migrate'),
  named('Deployment', '-worker'),
  named('Deployment', '-page'),
] as const;
const secret = named('Secret', '').stringData!;
const pods = [migrate, worker, page].map(one => one.spec.template);
const containers = pods.map(({ spec }) => spec.containers[0]!);

test('there is what is expected, and no more', () => {
  expect(resources.map(({ kind }) => kind)).toEqual(['Secret', 'Job', 'Deployment', 'Deployment', 'Service']);
  for (const { spec } of pods) expect(spec.containers).toHaveLength(1);
});

test('each container runs a command of ours, from one image, without rights, with settings that there are', async () => {
  const there = (await program()).commands.map(command => command.name());
  expect(containers.map(({ args }) => args[0])).toEqual(['migrate', 'start', 'web']);
  for (const { args, env = [], envFrom, image, securityContext, resources: needs } of containers) {
    expect(there).toContain(args[0]);
    expect(image).toBe(containers[0]!.image);
    expect(env.map(({ name }) => name).filter(name => !(name in settings))).toEqual([]);
    expect(envFrom).toEqual([{ secretRef: { name: 'shelfdesk' } }]);
    expect(securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    expect(needs.limits.memory).toMatch(/^(512Mi|1Gi)$/);
  }
  for (const { spec } of pods) {
    expect(spec.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 1000 });
    // The service of the page would set SHELFDESK_PAGE_PORT, and one named shelfdesk-web a setting.
    expect(spec.enableServiceLinks).toBe(false);
  }
});

test('the settings of a worker are right, and its page may be open to the probes, because it has a token', () => {
  const filled = Object.fromEntries(
    Object.entries(secret).map(([name, value]) => [name, value.replaceAll('…', 'x').padEnd(16, 'x')]),
  );
  filled.HELPDESK_BASE_URL = 'https://desk.example/api/v1';
  const more = Object.fromEntries((containers[1]!.env ?? []).map(({ name, value }) => [name, value]));
  const { databaseUrl, redisUrl } = readConfig('/nowhere', { ...filled, ...more });
  expect([databaseUrl, redisUrl]).not.toContain(undefined);
  expect(Object.keys(secret).filter(name => !(name in settings))).toEqual([]);
  expect(() =>
    demandSafe({ host: more.SHELFDESK_WEB_HOST!, token: filled.SHELFDESK_WEB_TOKEN, viewerToken: undefined } as never),
  ).not.toThrow();
});

test('selectors choose their own pods alone, and probes and the service reach a port', () => {
  for (const { spec } of [worker, page]) expect(spec.selector!.matchLabels).toEqual(spec.template.metadata.labels);
  const labels = pods.map(({ metadata }) => JSON.stringify(metadata.labels));
  expect(new Set(labels).size).toBe(3);
  const service = named('Service', '-page');
  expect(service.spec.selector).toEqual(page.spec.template.metadata.labels);
  for (const container of containers.slice(1)) {
    const [port] = container.ports!;
    expect(port!.containerPort).toBe(8090);
    for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe'] as const)
      expect(container[probe]!.httpGet).toEqual({
        path: probe === 'readinessProbe' ? '/readyz' : '/livez',
        port: port!.name,
      });
  }
  expect(service.spec.ports).toEqual([{ name: 'http', port: 80, targetPort: 'http' }]);
});
