/** What `npm run bench` measures, in this order. */
import type { Section } from '../report.ts';
import { analytics } from './analytics.ts';
import { credits } from './credits.ts';
import { fleet } from './fleet.ts';
import { freshness } from './freshness.ts';
import { growth } from './growth.ts';
import { lake } from './lake.ts';
import { loadCustomers } from './load-customers.ts';
import { loadMessages } from './load-messages.ts';
import { loadTickets } from './load-tickets.ts';
import { metrics } from './metrics.ts';
import { peers } from './peers.ts';
import { plan } from './plan.ts';
import { questions, questionsLarge } from './questions.ts';
import { sandbox } from './sandbox.ts';
import { scale } from './scale.ts';
import { silent } from './silent.ts';
import { spending } from './spending.ts';
import { startUp } from './start-up.ts';

export const sections: readonly Section[] = [
  loadTickets,
  loadMessages,
  loadCustomers,
  metrics,
  growth,
  startUp,
  peers,
  credits,
  spending,
  freshness,
  silent,
  fleet,
  scale,
  analytics,
  questions,
  questionsLarge,
  lake,
  plan,
  sandbox,
];
