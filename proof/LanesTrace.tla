----------------------------- MODULE LanesTrace -----------------------------
(* Whether what was stored in real runs is a behaviour of Lanes: one trace for each customer at each webhook.

   A trace has the stored state after each transaction: of every delivery its status, whether it is aside, was tried,
   failed at last and belongs to a replay; of every lane how many wait, its mark and whether it has a token. What
   processes hold in memory and what the receiver got is not in it: TLC looks for steps in between that explain it.
   Explanations may be left out, as below, because that can only refuse more. *)
EXTENDS Lanes, Sequences, Traces

VARIABLES which, step

Now(s) == <<row[s].status, row[s].aside, row[s].tried, row[s].error, row[s].replayed>>
Seen == [rows |-> [s \in Events |-> Now(s)],
         lanes |-> [a \in 1..(Last + 1) |-> <<lane[a - 1].waiting, lane[a - 1].done, lane[a - 1].token # 0>>]]
Then == Recorded[which][step + 1]
Changed == {s \in Events : Then.rows[s] # Now(s)}

TraceInit == Init /\ which \in DOMAIN Recorded /\ step = 0

\* A claim that another one has replaced cannot change anything more, so it is forgotten at once. Who claims does not matter.
Stale == {w \in Workers : Holds(w) /\ ~MayRecord(w)}
Owners == {w \in Workers : Holds(w) /\ MayRecord(w)}
Free == Min({w \in Workers : ~Holds(w)})

\* Only what is recorded next is sent; what the receiver got does not matter.
Between ==
    /\ step < Len(Recorded[which])
    /\ UNCHANGED <<which, step>>
    /\ IF Stale # {} THEN Crash(Min(Stale))
       ELSE \E w \in Owners, answer \in {"good", "bad"} :
            ~Then.lanes[hand[w].lane + 1][3] /\ Send(w, answer, TRUE)

Stored ==
    /\ Stale = {}
    /\ \/ \E amount \in 1..Together : LET fresh == {s \in Changed : s > committed} IN
            /\ committed + amount \in fresh
            /\ \A s \in fresh : s <= committed + amount
            /\ Commit(amount, fresh, Free)
       \/ \E a \in Lanes : Claim(Free, a)
       \/ \E w \in Owners : Release(w)
       \/ \E w \in Owners, outcome \in {"finished", "again", "aside"} : Record(w, outcome)
       \/ \E s \in Changed : Prune(s) \/ Resend(s)
       \/ Replay(Changed)
       \/ \E a \in Lanes : StopReplay(a, Changed)

TraceNext == Between \/ (step < Len(Recorded[which]) /\ step' = step + 1 /\ which' = which /\ Stored /\ Seen' = Then)
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, which, step>>

\* Always true; says how far each trace is explained.
Explained == PrintT(<<"explained", which, step>>)
=============================================================================
