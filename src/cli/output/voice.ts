/** The log of a process that works until it is told to end: lines for people at a terminal, JSON elsewhere, and never both. */
import type { Logger } from 'pino';
import { openLog, type Tell } from '../../app/open-context.ts';
import { say, style } from './terminal.ts';

const warn = 40;
const error = 50;

export const isTerminal = (): boolean => process.stderr.isTTY === true;

export const openVoice = (config: { logLevel: string }): Logger => openLog(config, isTerminal() ? tell : undefined);

/** A detail that the text does not name follows in brackets, if it is the reason. */
const tell: Tell = (level, text, { at, reason }) => {
  const when = at instanceof Date ? `${at.toISOString().slice(0, 19)}Z ` : '';
  const mark = level < warn ? '' : `${style(level < error ? 'yellow' : 'red', '!', process.stderr)} `;
  const why = typeof reason === 'string' && !text.includes(reason) ? ` (${reason})` : '';
  say(`${when}${mark}${text}${why}`);
};
