/** With `--import`: Node does not find the package of the lake, as where it is not installed. */
import { registerHooks } from 'node:module';

registerHooks({
  resolve(specifier, context, next) {
    if (specifier !== 'shelfdesk-lake') return next(specifier, context);
    const error = new Error(`Cannot find package 'shelfdesk-lake' imported from ${context.parentURL}`);
    throw Object.assign(error, { code: 'ERR_MODULE_NOT_FOUND' });
  },
});
