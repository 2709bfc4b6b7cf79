/**
 * Who may write to a stream of a run. A worker that takes the stream up raises its token; a write carries the token that
 * its worker was given, and changes a row only if it is still the token of the stream.
 *
 * docs/contributing/models.md says which function each step is. `Mistake` switches one rule off, so that a test sees that
 * the rule is needed: with `Mistake` empty nothing may be found, with any mistake something must.
 */
module fencing

open util/ordering[Token] as tokens

sig Token {}
sig Worker {}

abstract sig Rule {}
one sig
  /** The token grows when a stream is taken up. */
  Raises,
  /** A write compares its token. */
  Compares,
  /** A write compares for equality: an older token is no good. */
  Equals,
  /** A stream is not taken from a worker that lives. */
  Spares,
  /** Nothing is written once the stream has ended. */
  Ends,
  /** Whoever ends abandoned runs raises the token too. */
  Abandons
extends Rule {}

/** The rules that this check leaves out. */
var sig Mistake in Rule {}

/** Processes whose presence lock is held. One without may still run, and believe what it likes. */
var sig Alive in Worker {}

one sig Stream {
  var token: one Token,
  var holder: lone Worker
}
var lone sig Over in Stream {}

/** What each worker was given, and believes to have. */
sig Belief {}
one sig Beliefs { var of: Worker -> lone Token }

/** Ghost: the worker that was the last to take the stream up, unless it gave the stream back. */
one sig Truth { var owner: lone Worker }

/** Ghost: what the last step was, for the checks. */
abstract sig Deed {}
one sig Nothing, TookUp, Wrote, Refused, Finished, GaveBack, Abandoned extends Deed {}
one sig Last { var deed: one Deed, var by: lone Worker, var fromOwner: lone Worker, var wasAlive: set Worker }

pred init {
  Stream.token = tokens/first
  no Stream.holder
  no Over
  no Beliefs.of
  no Truth.owner
  Last.deed = Nothing
  no Last.by
  no Last.fromOwner
  no Last.wasAlive
}

pred says[d: Deed, w: lone Worker] {
  Last.deed' = d
  Last.by' = w
  Last.fromOwner' = Truth.owner
  Last.wasAlive' = Alive
}

pred higher { some t: Token | tokens/gt[t, Stream.token] }

/** claims.ts: takeUp */
pred takeUp[w: Worker] {
  no Over
  (Spares not in Mistake) implies (no Stream.holder or Stream.holder not in Alive or Stream.holder = w)
  Raises in Mistake implies Stream.token' = Stream.token
  Raises not in Mistake implies (higher and Stream.token' = tokens/next[Stream.token])
  Stream.holder' = w
  Beliefs.of' = Beliefs.of ++ w -> Stream.token'
  Truth.owner' = w
  Over' = Over
  Alive' = Alive
  says[TookUp, w]
}

pred passes[w: Worker] {
  some w.(Beliefs.of)
  Compares in Mistake or
    (Equals in Mistake implies tokens/gte[Stream.token, w.(Beliefs.of)] else w.(Beliefs.of) = Stream.token)
  Ends in Mistake or (no Over and some Stream.holder)
}

/** sums.ts: write, and keepProof */
pred commit[w: Worker] {
  some w.(Beliefs.of)
  passes[w] implies says[Wrote, w] else says[Refused, w]
  token' = token
  holder' = holder
  of' = of
  owner' = owner
  Over' = Over
  Alive' = Alive
}

/** claims.ts: finish */
pred finish[w: Worker] {
  passes[w]
  Over' = Stream
  no Stream.holder'
  Stream.token' = Stream.token
  no Truth.owner'
  of' = of
  Alive' = Alive
  says[Finished, w]
}

/** claims.ts: release */
pred release[w: Worker] {
  passes[w]
  no Stream.holder'
  Stream.token' = Stream.token
  no Truth.owner'
  of' = of
  Over' = Over
  Alive' = Alive
  says[GaveBack, w]
}

/** runs.ts: endAbandonedRuns. The stream may be opened again by the next command, as a run that resumes. */
pred abandon {
  no Over
  Stream.holder not in Alive
  Abandons in Mistake implies Stream.token' = Stream.token
  Abandons not in Mistake implies (higher and Stream.token' = tokens/next[Stream.token])
  Abandons in Mistake implies Stream.holder' = Stream.holder
  Abandons not in Mistake implies no Stream.holder'
  no Truth.owner'
  of' = of
  Over' = Over
  Alive' = Alive
  says[Abandoned, none]
}

/** workers.ts: the presence lock of a process goes, or is there again */
pred presence {
  Alive' != Alive
  token' = token
  holder' = holder
  of' = of
  owner' = owner
  Over' = Over
  says[Nothing, none]
}

pred stutter {
  token' = token
  holder' = holder
  of' = of
  owner' = owner
  Over' = Over
  Alive' = Alive
  says[Nothing, none]
}

fact histories {
  init
  always (Mistake' = Mistake)
  always (stutter or presence or abandon or (some w: Worker | takeUp[w] or commit[w] or finish[w] or release[w]))
}

/** No write of a worker that was replaced, and none after the end: whoever wrote was the owner. */
pred onlyTheOwnerWrites {
  always (Last.deed in Wrote + Finished + GaveBack implies Last.by = Last.fromOwner)
}
/** A stream is taken from nobody who lives, but from the worker itself. */
pred nobodyWhoLivesIsRobbed {
  always (Last.deed = TookUp implies (Last.fromOwner = Last.by or Last.fromOwner not in Last.wasAlive or no Last.fromOwner))
}
pred holds { onlyTheOwnerWrites and nobodyWhoLivesIsRobbed }

assert good { no Mistake implies holds }
check good for 5 but 3 Worker, 5 Token, 9 steps

assert withoutRaises { Mistake = Raises implies holds }
check withoutRaises for 4 but 2 Worker, 7 steps
assert withoutCompares { Mistake = Compares implies holds }
check withoutCompares for 4 but 2 Worker, 7 steps
assert withoutEquals { Mistake = Equals implies holds }
check withoutEquals for 4 but 2 Worker, 7 steps
assert withoutSpares { Mistake = Spares implies holds }
check withoutSpares for 4 but 2 Worker, 7 steps
assert withoutEnds { Mistake = Ends implies holds }
check withoutEnds for 4 but 2 Worker, 7 steps
assert withoutAbandons { Mistake = Abandons implies holds }
check withoutAbandons for 4 but 2 Worker, 7 steps

/** The model is no empty one: a stream is taken from a dead worker, which then tries to write, and a live one finishes. */
run story {
  no Mistake
  some disj a, b: Worker | eventually (takeUp[a] and eventually (takeUp[b] and eventually (commit[a] and eventually finish[b])))
} for 4 but 2 Worker, 8 steps
