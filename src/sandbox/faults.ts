/**
 * What goes wrong on purpose with a reply that was right. Faults of the text are done here; those of the connection
 * and of time are marks for the server, which has the socket.
 */
import type { Reply } from './exchange.ts';

export type Fault =
  /** Another status: of the 500 series without a body unless there is a reason, of the 400 series with the service's. */
  | { kind: 'status'; status: number; reason?: string }
  /** The connection is destroyed: before anything is sent, behind the headers, or halfway through the body. */
  | { kind: 'reset'; after: 'before' | 'headers' | 'half' }
  /** JSON that ends in the middle, in a reply that is otherwise complete. */
  | { kind: 'truncate' }
  | { kind: 'html' }
  /** The JSON is parsed, changed and written again. */
  | { kind: 'body'; edit: (json: unknown) => unknown }
  | { kind: 'text'; edit: (text: string) => string }
  /** The data is read, and the reply sent this much later; its Date is that of the sending. */
  | { kind: 'delay'; ms: number }
  | { kind: 'headers'; drop?: string[]; set?: Record<string, string> };

const PAGE = '<!DOCTYPE html><html><head><title>One moment</title></head><body><h1>Be right back</h1></body></html>';

/** `errorBody`: how the service tells of an error. */
export function spoil(reply: Reply, fault: Fault, errorBody: (status: number, reason?: string) => unknown): Reply {
  switch (fault.kind) {
    case 'status':
      return fault.status >= 500 && fault.reason === undefined
        ? { ...reply, status: fault.status, headers: changed(reply.headers, ['content-type']), text: '' }
        : { ...reply, status: fault.status, text: JSON.stringify(errorBody(fault.status, fault.reason)) };
    case 'reset':
      return { ...reply, broken: fault.after };
    case 'truncate':
      return { ...reply, status: 200, text: reply.text.slice(0, reply.text.length >> 1) };
    case 'html':
      return { ...reply, status: 200, headers: { ...reply.headers, 'Content-Type': 'text/html' }, text: PAGE };
    case 'body':
      return { ...reply, text: JSON.stringify(fault.edit(JSON.parse(reply.text))) };
    case 'text':
      return { ...reply, text: fault.edit(reply.text) };
    case 'delay':
      return { ...reply, delay_ms: fault.ms };
    case 'headers':
      return { ...reply, headers: changed(reply.headers, fault.drop ?? [], fault.set) };
  }
}

function changed(headers: Record<string, string>, drop: string[], set: Record<string, string> = {}) {
  const gone = [...drop, ...Object.keys(set)].map(name => name.toLowerCase());
  const kept = Object.entries(headers).filter(([name]) => !gone.includes(name.toLowerCase()));
  return { ...Object.fromEntries(kept), ...set };
}
