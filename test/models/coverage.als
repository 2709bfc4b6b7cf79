/**
 * What is recorded as synced, while two runs read one list and the clock of the source steps. A run reads from a time on;
 * its reply shows all that the list has then; later it commits the rows together with the range that they prove.
 *
 * docs/contributing/models.md says which function each step is. `Mistake` switches one rule off: with none nothing may be
 * found, with any something must.
 */
module coverage

open util/ordering[Time] as times

/** Seconds, as the source dates its changes. */
sig Time {}
sig Record {}
sig Run {}

abstract sig Rule {}
one sig
  /** A range ends before the second of its reply: more may come in that second. */
  EndsBefore,
  /** A range begins where the run began to read. */
  BeginsThere,
  /** Rows and range are committed together. */
  Together,
  /** If the clock was set back, ranges from there on are void. */
  Voids,
  /** A reply from before the clock moved proves nothing after it. */
  Counts
extends Rule {}
var sig Mistake in Rule {}

one sig Source {
  var clock: one Time,
  var changed: Record -> lone Time
}
/** The clock was set back to there, and no reply has told yet. */
var lone sig Back in Time {}

one sig Mirror { var synced: set Time }
var sig Stored in Record {}
/** Moves of the clock that the ledger knows of: a reply of an older count proves nothing. */
var sig Stale in Run {}

/** Runs with a reply that is not committed yet. */
var sig Reading in Run {}
one sig Reply {
  var from: Run -> lone Time,
  var asOf: Run -> lone Time,
  var rows: Run -> Record
}

fun onwards[t: Time]: set Time { t + times/nexts[t] }

pred init {
  Source.clock = times/first
  no Source.changed
  no Back
  no Mirror.synced
  no Stored
  no Stale
  no Reading
  no Reply.from
  no Reply.asOf
  no Reply.rows
}

pred sourceStays { clock' = clock and changed' = changed and Back' = Back }
pred mirrorStays { synced' = synced and Stored' = Stored }
pred repliesStay { Reading' = Reading and from' = from and asOf' = asOf and rows' = rows and Stale' = Stale }

/** The source: time passes, a record changes, its clock is set back. */
pred tick {
  Source.clock' = times/next[Source.clock]
  changed' = changed and Back' = Back and mirrorStays and repliesStay
}
pred change[r: Record] {
  no r.(Source.changed)
  Source.changed' = Source.changed + r -> Source.clock
  clock' = clock and Back' = Back and mirrorStays and repliesStay
}
pred setBack {
  some t: Time | times/lt[t, Source.clock] and Source.clock' = t and
    (no Back implies Back' = t else Back' = times/min[Back + t])
  changed' = changed and mirrorStays and repliesStay
}

/** moving-list.ts reads; ledger.ts: settle hears the clock (source-clock.ts: hear), and sync.void_since voids. */
pred reply[u: Run, t: Time] {
  u not in Reading
  times/lte[t, Source.clock]
  Reading' = Reading + u
  Reply.from' = Reply.from ++ u -> t
  Reply.asOf' = Reply.asOf ++ u -> Source.clock
  Reply.rows' = Reply.rows - (u -> Record) + u -> Source.changed.(onwards[t])
  // What is told of the clock is told to all.
  (some Back and Counts not in Mistake) implies Stale' = Reading else Stale' = Stale - u
  (some Back and Voids not in Mistake) implies Mirror.synced' = Mirror.synced - onwards[Back] else synced' = synced
  no Back'
  Stored' = Stored and clock' = clock and changed' = changed
}

fun proof[u: Run]: set Time {
  let begin = (BeginsThere in Mistake => times/first else u.(Reply.from)), end = u.(Reply.asOf) |
    onwards[begin] - (EndsBefore in Mistake => times/nexts[end] else onwards[end])
}

/** commit.ts: commitTogether and keepBooks; coverage.ts: cover */
pred commit[u: Run] {
  u in Reading
  Stored' = Stored + u.(Reply.rows)
  Mirror.synced' = Mirror.synced + (u in Stale => none else proof[u])
  done[u]
}
/** The mistake: the range first, the rows in another transaction, and a death in between. */
pred rangeAlone[u: Run] {
  Together in Mistake
  u in Reading
  Stored' = Stored
  Mirror.synced' = Mirror.synced + (u in Stale => none else proof[u])
  done[u]
}
/** The process dies with its reply. */
pred die[u: Run] {
  u in Reading
  mirrorStays
  done[u]
}
pred done[u: Run] {
  Reading' = Reading - u
  Stale' = Stale - u
  from' = from and asOf' = asOf and rows' = rows
  sourceStays
}
pred stutter { sourceStays and mirrorStays and repliesStay }

fact histories {
  init
  always (Mistake' = Mistake)
  always (stutter or tick or setBack or (some r: Record | change[r]) or
    (some u: Run | commit[u] or rangeAlone[u] or die[u] or (some t: Time | reply[u, t])))
}

/** I3: what is recorded as synced is stored; until a reply tells that the clock was set back. */
pred holds { always (no Back implies Source.changed.(Mirror.synced) in Stored) }

assert good { no Mistake implies holds }
check good for 4 but 2 Run, 2 Record, 3 Time, 9 steps

assert withoutEndsBefore { Mistake = EndsBefore implies holds }
check withoutEndsBefore for 4 but 2 Run, 2 Record, 3 Time, 8 steps
assert withoutBeginsThere { Mistake = BeginsThere implies holds }
check withoutBeginsThere for 4 but 2 Run, 2 Record, 3 Time, 8 steps
assert withoutTogether { Mistake = Together implies holds }
check withoutTogether for 4 but 2 Run, 2 Record, 3 Time, 8 steps
assert withoutVoids { Mistake = Voids implies holds }
check withoutVoids for 4 but 2 Run, 2 Record, 3 Time, 8 steps
assert withoutCounts { Mistake = Counts implies holds }
check withoutCounts for 4 but 2 Run, 2 Record, 3 Time, 9 steps

/** The model is no empty one: after the clock was set back and a reply told of it, a run proves the range once more. */
run story {
  no Mistake
  eventually (some Mirror.synced and eventually (setBack and eventually (some u: Run | some t: Time | reply[u, t] and after eventually commit[u])))
  eventually (some Stored)
} for 4 but 2 Run, 2 Record, 3 Time, 9 steps
