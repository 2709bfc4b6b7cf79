/** The log of a process that works until it is told to end: lines for people at a terminal, JSON elsewhere, and never both. */
import type { Logger } from 'pino';
import { openLog, type Tell } from '../../app/open-context.ts';
import { say, style } from './terminal.ts';

const warn = 40;
const error = 50;

export const isTerminal = (): boolean => process.stderr.isTTY === true;

export const openVoice = (config: { logLevel: string }): Logger => openLog(config, isTerminal() ? tell : undefined);

/** Of the details a person needs the stream and the reason, unless the text names them. */
const tell: Tell = (level, text, { at, reason, stream }) => {
  const when = at instanceof Date ? `${at.toISOString().slice(0, 19)}Z ` : '';
  const mark = level < warn ? '' : `${style(level < error ? 'yellow' : 'red', '!', process.stderr)} `;
  const why = typeof reason === 'string' && !text.includes(reason) ? ` (${reason})` : '';
  const whose = typeof stream === 'string' && !text.includes(stream) ? `${stream}: ` : '';
  say(`${when}${mark}${whose}${text}${why}`);
};
