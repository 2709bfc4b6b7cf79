/** An agent: a client of `shelfdesk mcp` in this process or in one of its own, or of the page over HTTP. */
import { type ChildProcess, spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { makeOverHttp } from '../../src/agents/http.ts';
import { readFleet } from '../../src/app/config.ts';
import { openWarehouse } from '../../src/app/context.ts';
import { agentsOf } from '../../src/cli/look/mcp.ts';
import { makeLookingPool } from '../../src/engine/database/pool.ts';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

interface Reply {
  readonly result?: Record<string, unknown> & {
    readonly content?: readonly { readonly text: string }[];
    readonly isError?: boolean;
  };
  readonly error?: { readonly code: number; readonly message: string };
}

/** What a tool answers. */
interface Told {
  readonly isError: boolean;
  /** All of it, as it came. */
  readonly text: string;
  /** What Shelfdesk says of the answer, if that is JSON. */
  readonly about: {
    readonly rows?: number;
    readonly cut?: string;
    readonly masked?: boolean;
    readonly completeness?: readonly Record<string, unknown>[];
  };
  /** What is within the fence, if that is JSON. */
  readonly data: unknown;
}

export interface Agent {
  call(method: string, params?: object): Promise<Reply>;
  tool(name: string, args?: object): Promise<Told>;
}

export interface StdioAgent extends Agent, AsyncDisposable {
  readonly process: ChildProcess;
  /** Lines of stdout that are no message of the protocol. */
  readonly strange: readonly string[];
  readonly stderr: () => string;
  /** Closes its end; the exit code. */
  end(): Promise<number | null>;
}

const hello = {
  protocolVersion: '2025-06-18',
  capabilities: {},
  clientInfo: { name: 'a test', version: '1' },
};

export async function agentOverStdio(env: Record<string, string>, ...args: string[]): Promise<StdioAgent> {
  const { PATH = '', HOME = '', NODE_COMPILE_CACHE = '' } = process.env;
  const child = spawn(process.execPath, [main, ...args], {
    env: { PATH, HOME, NODE_COMPILE_CACHE, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const waiting = new Map<number, (reply: Reply) => void>();
  const strange: string[] = [];
  let stderr = '';
  child.stderr.on('data', chunk => {
    stderr += chunk;
  });
  createInterface({ input: child.stdout }).on('line', line => {
    const reply = parsed(line);
    if (reply?.jsonrpc !== '2.0') strange.push(line);
    else waiting.get(reply.id)?.(reply);
  });
  const ended = new Promise<number | null>(resolve => child.on('close', resolve));
  const send = (message: object) => child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  let last = 0;
  const call = (method: string, params: object = {}): Promise<Reply> => {
    const id = ++last;
    const reply = new Promise<Reply>(resolve => waiting.set(id, resolve));
    send({ id, method, params });
    return Promise.race([
      reply,
      ended.then(code => {
        throw new Error(`the server ended with ${code}: ${stderr}`);
      }),
    ]);
  };
  const end = () => {
    child.stdin.end();
    return ended;
  };
  await call('initialize', hello);
  send({ method: 'notifications/initialized' });
  return {
    ...{ call, tool: toolOf(call), process: child, strange, stderr: () => stderr, end },
    async [Symbol.asyncDispose]() {
      child.kill();
      await ended;
    },
  };
}

/** As `mcp` answers it. `ms`: the longest time of a question. */
export async function agentHere(
  env: Record<string, string>,
  { account: only, pii = false, ms }: { account?: string; pii?: boolean; ms?: number } = {},
): Promise<Agent & AsyncDisposable> {
  const fleet = () => {
    const { agents, ...rest } = readFleet(tmpdir(), env);
    return { ...rest, agents: { ...agents, limits: { ...agents.limits, ...(ms !== undefined && { ms }) } } };
  };
  await using stack = new AsyncDisposableStack();
  const warehouse = stack.use(await openWarehouse(fleet()));
  const pg = makeLookingPool(warehouse.url);
  stack.defer(() => pg.end());
  const bugs: unknown[] = [];
  const onBug = (error: unknown) => void bugs.push(error);
  const agents = await agentsOf({ warehouse: { ...warehouse, pg }, fleet, only, onBug });
  stack.defer(() => agents.close());
  await agents.serve(pii);
  const server = makeOverHttp(agents, onBug);
  const opened = stack.move();
  return {
    ...agentOverHttp('http://127.0.0.1/', {}, request => server.answer(request, pii)),
    async [Symbol.asyncDispose]() {
      await opened.disposeAsync();
      if (bugs.length > 0) throw bugs[0];
    },
  };
}

/** Each request stands alone. */
export function agentOverHttp(
  url: string,
  headers: Record<string, string> = {},
  answer: (request: Request) => Promise<Response> = fetch,
): Agent & {
  status(method: string, body?: string, more?: Record<string, string>): Promise<number>;
} {
  const own = { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers };
  let last = 0;
  const call = async (method: string, params: object = {}): Promise<Reply> => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: ++last, method, params });
    const response = await answer(new Request(`${url}mcp`, { method: 'POST', headers: own, body }));
    const text = await response.text();
    const [, event] = /^data: (.*)$/m.exec(text) ?? [];
    return JSON.parse(event ?? text);
  };
  return {
    call,
    tool: toolOf(call),
    async status(method, body, more = {}) {
      const response = await fetch(`${url}mcp`, { method, headers: { ...own, ...more }, ...(body && { body }) });
      await response.body?.cancel();
      return response.status;
    },
  };
}

const toolOf =
  (call: Agent['call']): Agent['tool'] =>
  async (name, args = {}) => {
    const { result, error } = await call('tools/call', { name, arguments: args });
    const parts = result?.content?.map(({ text }) => text) ?? [error?.message ?? ''];
    const text = parts.join('\n');
    const [, fenced] = /<<<data (?:\w+)\n([\s\S]*)\ndata \w+>>>$/.exec(text) ?? [];
    return {
      isError: error !== undefined || result?.isError === true,
      text,
      about: parsed(parts[0] ?? '') ?? {},
      data: fenced === undefined ? undefined : parsed(fenced),
    };
  };

// biome-ignore lint/suspicious/noExplicitAny: what came is anything
function parsed(text: string): any {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
