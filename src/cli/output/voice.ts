/** The log of a process that runs until it is stopped: lines for people at a terminal, else JSON. */
import type { Logger } from 'pino';
import { openLog, type Tell } from '../../app/open-context.ts';
import { say, style } from './terminal.ts';

const warn = 40;
const error = 50;

export const isTerminal = (): boolean => process.stderr.isTTY === true;

export const openVoice = (config: { logLevel: string }): Logger => openLog(config, isTerminal() ? tell : undefined);

/** Adds the stream and the reason to the text, unless the text has them. */
const tell: Tell = (level, text, { at, reason, stream }) => {
  const when = at instanceof Date ? `${at.toISOString().slice(0, 19)}Z ` : '';
  const mark = level < warn ? '' : `${style(level < error ? 'yellow' : 'red', '!', process.stderr)} `;
  const why = typeof reason === 'string' && !text.includes(reason) ? ` (${reason})` : '';
  const whose = typeof stream === 'string' && !text.includes(stream) ? `${stream}: ` : '';
  say(`${when}${mark}${whose}${text}${why}`);
};
