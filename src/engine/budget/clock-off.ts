/** Names the clock that is off: of three witnesses, the one that the others contradict. Pure. */
import { fewMs, type RecordClock } from './record-clock.ts';

/** ours: this machine's or the database's. source: the clock that stamps records. edge: the clock that writes `Date`. */
export interface ClockOff {
  readonly whose: 'source' | 'edge' | 'ours';
  readonly says: string;
  readonly byMs: number;
}

/** `machineMs`: the clock of this machine less the database's. `label`: the source as people call it. */
export function clockOff(
  { dateMs, stampMs }: Pick<RecordClock, 'dateMs' | 'stampMs'>,
  machineMs: number,
  label: string,
): ClockOff | undefined {
  if (isOff(machineMs)) {
    const isDatabase = isOff(dateMs) && !isOff(dateMs - machineMs);
    return isDatabase
      ? {
          whose: 'ours',
          byMs: machineMs,
          says: `the database's clock is ${far(-machineMs)} those of this machine and ${label}`,
        }
      : { whose: 'ours', byMs: machineMs, says: `this machine's clock is ${far(machineMs)} the database's` };
  }
  if (isOff(dateMs)) {
    const off = (whose: ClockOff['whose'], says: string) => ({ whose, byMs: dateMs, says });
    const stampsAgree = stampMs !== null && (dateMs > 0 ? stampMs > fewMs : stampMs <= dateMs + fewMs);
    if (stampsAgree)
      return off('source', `${ours} are ${far(-dateMs)} the clock of ${label}: its Date and its records agree`);
    // Without a fresh stamp it is unknown whether the records' clock is behind as well.
    if (dateMs < 0 && stampMs === null) return off('edge', `${ours} are ${far(-dateMs)} the Date header of ${label}`);
    return off('edge', `the Date header of ${label} is ${far(dateMs)} the times of its records and our clocks`);
  }
  if (stampMs === null || stampMs <= fewMs) return undefined;
  return {
    whose: 'source',
    byMs: stampMs,
    says: `the clock that stamps the records of ${label} is ${far(stampMs)} its Date header and our clocks`,
  };
}

export const clockRemedies: Readonly<Record<ClockOff['whose'], string>> = {
  ours: 'Let the machines set their clocks by NTP (`timedatectl set-ntp true`).',
  edge: 'Nothing is claimed beyond the other clocks. The operator of the proxy, or the support of the source, has to set its clock.',
  source:
    'Claims follow the times of its records, and may lag by the difference while nothing changes. The support of the source has to set its clock.',
};

const ours = "this machine's clock and the database's";

const isOff = (ms: number) => Math.abs(ms) > fewMs;

/** `180 s ahead of`. */
const far = (ms: number) => `${Math.round(Math.abs(ms) / 1000)} s ${ms > 0 ? 'ahead of' : 'behind'}`;
