/** Name of the person at the terminal (`user@host`), for sync.operations. */
import { hostname, userInfo } from 'node:os';

export const operator = (): string => `${userName()}@${hostname()}`;

/** In a container a user id may have no name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `user ${process.getuid?.() ?? '?'}`;
  }
}
