/** The manifest against the JSON schemas of Kubernetes, as kubeconform does it: no field that there is not, none missing. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { root } from '../support/docker.ts';
import { long } from '../support/long.ts';
import { pythonWith } from '../support/python.ts';

test('Kubernetes accepts each document of the manifest', long, async context => {
  await using python = await pythonWith(context, ['kubernetes-validate==1.37.0']);
  const validate = join(python.bin, 'kubernetes-validate');
  const { stdout, stderr } = await promisify(execFile)(validate, [
    '--strict',
    join(root, 'docs/how-to/kubernetes.yaml'),
  ]);
  expect(`${stdout}${stderr}`.match(/ passed for resource /g)).toHaveLength(5);
});
