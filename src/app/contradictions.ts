/** Errors of settings that are valid alone but not in combination. */
import { UsageError } from '../errors.ts';
import { sources } from '../sources/index.ts';
import type { Given } from './files/accounts-file.ts';
import type { Values } from './settings.ts';

/** Errors of settings that are valid alone but not in combination. */
export function contradictions(value: Values, given: Given): UsageError[] {
  const found = sources.flatMap(source => source.contradictions(value, given));
  if (value.SHELFDESK_WEB_TOKEN !== undefined && value.SHELFDESK_WEB_TOKEN === value.SHELFDESK_WEB_VIEWER_TOKEN) {
    found.push(
      new UsageError(
        'SHELFDESK_WEB_TOKEN and SHELFDESK_WEB_VIEWER_TOKEN are the same, so that every viewer would be an operator',
        'Give the viewers a token of their own.',
      ),
    );
  }
  if (value.HANDOFF_WEBHOOK_URL !== undefined && value.HANDOFF_SECRET === undefined)
    found.push(
      new UsageError(
        'HANDOFF_WEBHOOK_URL is set, and HANDOFF_SECRET is not',
        `Set HANDOFF_SECRET ${given.whereTo}, for example to the output of: echo "whsec_$(openssl rand -base64 32)"`,
      ),
    );
  if (value.FIELD_RULES.some(({ action }) => action.name === 'hash') && value.FIELD_RULES_KEY === undefined)
    found.push(
      new UsageError(
        'FIELD_RULES hashes fields, and FIELD_RULES_KEY is not set',
        `Set FIELD_RULES_KEY ${given.whereTo} to 16 characters or more, and keep it: other hashes would not match these.`,
      ),
    );
  return found;
}
