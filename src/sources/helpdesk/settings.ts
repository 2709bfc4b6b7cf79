/** The settings of the help desk, and the configuration that they produce. */
import { amount, baseUrl, moment, type Setting, secret, type ValuesOf } from '../../app/setting-types.ts';
import type { Limits } from '../../engine/budget/budget.ts';
import type { AuditConfig } from '../../engine/context.ts';
import { UsageError } from '../../errors.ts';
import type { SettingsOf } from '../source.ts';

export const helpdeskSettings = {
  HELPDESK_BASE_URL: {
    schema: baseUrl('/api/v1').optional(),
    end: '/api/v1',
    says: 'Base address of the help desk; ends in `/api/v1`. HTTPS, except to this machine itself and to names without a dot.',
    // The URL itself is no secret, but people paste keys and passwords into URLs.
    secret: true,
  },
  HELPDESK_TOKEN: secret('Access token of the help desk: made by installing its API app, in its settings (apps tab).'),
  HELPDESK_CREDITS: amount(1, 100, 'Credits of the whole account per period.'),
  HELPDESK_PERIOD_SECONDS: amount(1, 60, 'Length of the credit period in seconds.'),
  HELPDESK_REQUESTS_PER_SECOND: amount(1, 6, 'Requests per second of the whole account.'),
  HELPDESK_RESERVE: amount(0, 10, "Credits of each period that are reserved for the account's other tools."),
  HELPDESK_SINCE: {
    schema: moment.default(0),
    default: 'everything',
    says: 'Start of the mirror (ISO 8601); older records are not read.',
  },
  HELPDESK_LOOKBACK_SECONDS: amount(
    0,
    120,
    'Lookback window in seconds: how late a record may appear. The next sync re-reads this window.',
  ),
  AUDIT_TICKETS_PER_HOUR: amount(
    0,
    50,
    'Random tickets per hour that `start` re-reads and compares while credits are idle; 0: none.',
  ),
  MESSAGES_AGE_DAYS: amount(
    0,
    0,
    'Age in days after which messages are re-read while credits are idle; 0: as SWEEP_SHARE_PERCENT allows.',
  ),
} as const satisfies Record<string, Setting>;

interface HelpdeskConfig {
  baseUrl: URL;
  token: string;
}

/** The configuration that the help desk adds to an account. */
export interface HelpdeskPart {
  /** Undefined if the help desk is not configured. Only some commands need it. */
  helpdesk: HelpdeskConfig | undefined;
  limits: Limits;
  sinceMs: number;
  lookbackMs: number;
  audit: AuditConfig;
}

const dayMs = 24 * 3_600_000;

export function configureHelpdesk(
  value: ValuesOf<typeof helpdeskSettings> & { readonly SWEEP_SHARE_PERCENT: number },
): HelpdeskPart {
  const { HELPDESK_BASE_URL: url, HELPDESK_TOKEN: token } = value;
  return {
    helpdesk: url && token ? { baseUrl: url, token } : undefined,
    limits: {
      credits: value.HELPDESK_CREDITS,
      periodMs: value.HELPDESK_PERIOD_SECONDS * 1000,
      requestsPerSecond: value.HELPDESK_REQUESTS_PER_SECOND,
      reserve: value.HELPDESK_RESERVE,
      sweepShare: value.SWEEP_SHARE_PERCENT / 100,
    },
    sinceMs: value.HELPDESK_SINCE,
    lookbackMs: value.HELPDESK_LOOKBACK_SECONDS * 1000,
    audit: {
      perHour: value.AUDIT_TICKETS_PER_HOUR,
      againMs: value.MESSAGES_AGE_DAYS === 0 ? undefined : value.MESSAGES_AGE_DAYS * dayMs,
    },
  };
}

/** Errors of settings that are valid alone but not in combination. */
export function helpdeskContradictions(
  value: ValuesOf<typeof helpdeskSettings>,
  { account, whereIs, whereTo }: SettingsOf,
): UsageError[] {
  const found: UsageError[] = [];
  if (value.HELPDESK_RESERVE + 4 > value.HELPDESK_CREDITS) {
    found.push(
      new UsageError(
        `HELPDESK_RESERVE (${value.HELPDESK_RESERVE}) leaves less than 4 of HELPDESK_CREDITS (${value.HELPDESK_CREDITS}), and one ticket with its messages may cost 4`,
        `Lower HELPDESK_RESERVE${account === 'default' ? '' : ` in ${whereIs('HELPDESK_RESERVE')}`}.`,
      ),
    );
  }
  const { HELPDESK_BASE_URL: url, HELPDESK_TOKEN: token } = value;
  if ((url === undefined) !== (token === undefined)) {
    const missing = url === undefined ? 'HELPDESK_BASE_URL' : 'HELPDESK_TOKEN';
    found.push(new UsageError(`${missing} is not set`, `Set ${missing} as well, ${whereTo}.`));
  }
  return found;
}
