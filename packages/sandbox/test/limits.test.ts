import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type LimitOptions, Limits } from '../src/admission/limits.ts';
import { asking, emptyWorld } from './in-process.ts';

const limits = (options: Partial<LimitOptions>) =>
  new Limits({ credits: 3, periodSeconds: 60, requestsPerSecond: 100, window: 'fixed', start: 500, ...options });

/** [at in ms, cost, admitted?, remaining afterwards, reset] */
type Step = [at: number, cost: number, admitted: boolean, remaining: number, reset: number];

describe('8 limits', () => {
  test.each<[what: string, options: Partial<LimitOptions>, steps: Step[]]>([
    [
      'fixed: a period begins with the server, and all credits come back together',
      {},
      [
        [500, 1, true, 2, 60],
        [501, 2, true, 0, 60],
        [20_500, 1, false, 0, 40],
        [60_499, 1, false, 0, 1],
        [60_500, 3, true, 0, 60],
        [200_000, 1, true, 2, 41],
      ],
    ],
    [
      'sliding: a credit comes back one period after it was used',
      { window: 'sliding' },
      [
        [500, 1, true, 2, 60],
        [10_500, 2, true, 0, 50],
        [60_499, 1, false, 0, 1],
        [60_500, 1, true, 0, 10],
        [60_501, 1, false, 0, 10],
        [70_500, 3, false, 2, 50],
        [70_500, 2, true, 0, 50],
      ],
    ],
    [
      'sliding: who is refused hears when there is enough for this request',
      { window: 'sliding' },
      [
        [0, 1, true, 2, 60],
        [30_000, 2, true, 0, 30],
        [31_000, 1, false, 0, 29],
        [31_000, 2, false, 0, 59],
      ],
    ],
    [
      'more than there ever is: never',
      { window: 'sliding' },
      [
        [0, 4, false, 3, 0],
        [1, 3, true, 0, 60],
        [2, 4, false, 0, 60],
      ],
    ],
    [
      'burst: so many in any second, and a slot is free again after exactly one',
      { credits: 100, requestsPerSecond: 2 },
      [
        [900, 1, true, 99, 60],
        [1100, 1, true, 98, 60],
        [1200, 1, false, 98, 60],
        [1899, 1, false, 98, 59],
        [1900, 1, true, 97, 59],
        [2099, 1, false, 97, 59],
        [2100, 1, true, 96, 59],
      ],
    ],
    [
      'burst: holds in sliding windows too',
      { credits: 100, requestsPerSecond: 1, window: 'sliding' },
      [
        [0, 1, true, 99, 60],
        [999, 1, false, 99, 60],
        [1000, 1, true, 98, 59],
      ],
    ],
  ])('%s', (_, options, steps) => {
    const made = limits(options);
    const walked = steps.map(([at, cost]): Step => {
      const admitted = made.admit(cost, at);
      const { remaining, reset } = made.budget(at, admitted ? 0 : cost);
      return [at, cost, admitted, remaining, reset];
    });
    expect(walked).toEqual(steps);
  });

  test('another client cannot use more than there is', () => {
    const made = limits({});
    expect([made.take(2, 600), made.take(2, 700), made.take(2, 800)]).toEqual([2, 1, 0]);
    expect(made.budget(800)).toEqual({ limit: 3, remaining: 0, reset: 60 });
  });

  test('what is given back is that of its own instant, though others have used some since', () => {
    const made = limits({ credits: 9, window: 'sliding' });
    made.admit(2, 600);
    made.take(3, 601);
    made.giveBack(2, 600);
    expect(made.budget(601)).toEqual({ limit: 9, remaining: 6, reset: 60 });
    made.giveBack(2, 600);
    expect(made.budget(601)).toEqual({ limit: 9, remaining: 6, reset: 60 });
  });

  const arrivals = fc.array(fc.tuple(fc.nat(900), fc.integer({ min: 1, max: 4 })), { maxLength: 150 });

  test.each(['fixed', 'sliding'] as const)('%s: counted again by hand, no second and no period holds more', window => {
    fc.assert(
      fc.property(arrivals, gaps => {
        const options = { credits: 9, periodSeconds: 5, requestsPerSecond: 3, window, start: 0 };
        const made = new Limits(options);
        const admitted: [at: number, cost: number][] = [];
        let now = 0;
        for (const [gap, cost] of gaps) {
          now += gap;
          const inPeriod = (at: number) =>
            window === 'fixed' ? Math.floor(at / 5000) === Math.floor(now / 5000) : at > now - 5000;
          const used = admitted.filter(([at]) => inPeriod(at)).reduce((sum, [, credits]) => sum + credits, 0);
          const inSecond = admitted.filter(([at]) => at > now - 1000).length;
          const fits = used + cost <= 9 && inSecond < 3;
          expect(made.admit(cost, now)).toBe(fits);
          if (fits) admitted.push([now, cost]);
        }
      }),
    );
  });
});

describe('8 limits, as the service shows them', () => {
  function limited(options: Parameters<typeof asking>[1]) {
    const { world, clock } = emptyWorld();
    world.addTicket({ id: 't' });
    return { clock, ...asking(world, { credits: 5, requestsPerSecond: 6, ...options }) };
  }
  const budget = ({ headers, status }: ReturnType<ReturnType<typeof asking>['get']>) => [
    status,
    ...['Limit', 'Remaining', 'Used', 'Reset'].map(name => +headers[`Rate-Limit-${name}`]!),
  ];

  test('the four headers stand on every response', () => {
    const { get, clock, service } = limited({});
    clock.ms += 1;
    expect(budget(get('/tickets/t?embed=labels,inbox'))).toEqual([200, 5, 2, 3, 60]);
    clock.ms += 9_999;
    expect(budget(get('/tickets/nobody'))).toEqual([404, 5, 1, 1, 50]);
    expect(budget(get('/tickets?count=true'))).toEqual([429, 5, 1, 0, 50]);
    expect(budget(get('/users'))).toEqual([200, 5, 0, 1, 50]);
    expect(get('/users').json).toStrictEqual({ message: 'Too Many Requests' });
    expect(budget(get('/users', { authorization: 'Bearer wrong' }))).toEqual([401, 5, 0, 0, 50]);
    clock.ms += 50_000;
    expect(budget(get('/users'))).toEqual([200, 5, 4, 1, 60]);
    service.takeCredits(3);
    expect(budget(get('/users'))).toEqual([200, 5, 0, 1, 60]);
    expect(budget(get('/users'))).toEqual([429, 5, 0, 0, 60]);
  });

  test('unknown: whether a refusal or an error is charged', () => {
    const lenient = limited({ chargeErrors: false });
    expect(budget(lenient.get('/tickets/nobody'))).toEqual([404, 5, 5, 0, 60]);
    expect(budget(lenient.get('/users'))).toEqual([200, 5, 4, 1, 60]);
    const strict = limited({ chargeRefused: true, window: 'sliding' });
    expect(budget(strict.get('/tickets/t?embed=labels,inbox'))).toEqual([200, 5, 2, 3, 60]);
    expect(budget(strict.get('/tickets/t?embed=labels,inbox'))).toEqual([429, 5, 0, 2, 60]);
  });

  test('a free error gives back its own credits, whoever uses others meanwhile on a clock that runs', () => {
    let ms = 0;
    const { world } = emptyWorld({ now: () => ms++ });
    const { get } = asking(world, { credits: 10, chargeErrors: false, fault: () => ({ kind: 'credits', credits: 2 }) });
    expect(budget(get('/tickets/nobody'))).toEqual([404, 10, 8, 0, 60]);
    expect(budget(get('/users'))).toEqual([200, 10, 5, 1, 60]);
  });

  test('sliding: Reset is when the oldest credit comes back, or, if refused, when there is enough', () => {
    const { get, clock } = limited({ window: 'sliding', chargeErrors: false });
    get('/tickets/nobody');
    clock.ms += 1000;
    expect(budget(get('/users'))).toEqual([200, 5, 4, 1, 60]);
    clock.ms += 20_000;
    expect(budget(get('/tickets/t?embed=labels,inbox'))).toEqual([200, 5, 1, 3, 40]);
    expect(budget(get('/tickets?count=true'))).toEqual([429, 5, 1, 0, 40]);
    expect(budget(get('/tickets/t?embed=labels,inbox'))).toEqual([429, 5, 1, 0, 60]);
  });
});
