/** Who sits at this terminal, as sync.operations is told of it. */
import { hostname, userInfo } from 'node:os';

export const operator = (): string => `${userName()}@${hostname()}`;

/** In a container the number of a user may have no name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `user ${process.getuid?.() ?? '?'}`;
  }
}
