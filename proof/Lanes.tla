------------------------------- MODULE Lanes -------------------------------
(* The queue of deliveries for one customer at one webhook: lanes, leases and fencing tokens.

   Each action is one transaction of the service or one step of the network; README.md names the function of each.
   There is no time: a lease may run out at once and a retry may be due at once, so a lane may be claimed at any moment.
   That includes every real timing. For the same reason a pause, the circuit breaker and the limit of what is under way
   have no state: they only make claims later, and here no claim ever has to be made.
   A worker is one claim in the hands of some process. It may crash (the claim is forgotten), or stand still for any
   time and go on when others have claimed the same lane.

   Left out: other customers and webhooks, which have rows of their own; partitions, which move rows and change none of
   the columns modelled here. *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
    Last,       \* how many events the customer gets
    Together,   \* how many events one transaction writes at most
    Workers,
    Requeues,   \* how many resends, replays and stops of replays there are at most
    Deletes,    \* whether the webhook may be deleted
    Fault       \* "none", or the mistake to make

VARIABLES
    committed,  \* events 1..committed exist
    row,        \* row[s]: the delivery of event s
    lane,       \* lane[a]: 0 is the customer's lane, a > 0 the lane of its own of event a
    hand,       \* hand[w]: what a worker has claimed
    deleted,    \* whether the webhook was deleted
    wanted,     \* events that matched the webhook when they were committed
    arrived,    \* events that the receiver got at least once
    disorder,   \* whether one arrived before an earlier one without a reason
    requeued    \* how many resends, replays and stops there were

vars == <<committed, row, lane, hand, deleted, wanted, arrived, disorder, requeued>>

Events == 1..Last
Lanes == 0..Last
NoRow == [status |-> "none", aside |-> FALSE, tried |-> FALSE, error |-> FALSE, replayed |-> FALSE]
NoLane == [waiting |-> 0, done |-> 0, token |-> 0]
Idle == [lane |-> 0, token |-> 0, done |-> 0, event |-> 0, answer |-> "none"]

Min(S) == CHOOSE s \in S : \A t \in S : s <= t
LaneOf(s) == IF row[s].aside THEN s ELSE 0
\* What waits in a lane, by the deliveries themselves.
Queue(a) == {s \in Events : row[s].status = "waiting" /\ LaneOf(s) = a}
Exists(a) == lane[a].waiting > 0
\* What a claim finds: only above the lane's mark.
Heads(a) == {s \in Queue(a) : s > lane[a].done}
\* Random numbers in the code. Here the least that nobody has, so that there are few.
NewToken == Min({t \in 1..(Cardinality(Workers) + Last + 2) :
    (\A w \in Workers : hand[w].token # t) /\ (\A a \in Lanes : lane[a].token # t)})
Holds(w) == hand[w].event # 0
\* Only the holder of the lane's token may change it.
MayRecord(w) == \/ Exists(hand[w].lane) /\ lane[hand[w].lane].token = hand[w].token
                \/ Fault = "record without the token" /\ Exists(hand[w].lane)

Init ==
    /\ committed = 0
    /\ row = [s \in Events |-> NoRow]
    /\ lane = [a \in Lanes |-> NoLane]
    /\ hand = [w \in Workers |-> Idle]
    /\ deleted = FALSE
    /\ wanted = {}
    /\ arrived = {}
    /\ disorder = FALSE
    /\ requeued = 0

\* A change is committed with `amount` events, of which the webhook wants those in `matching`. The writer may take the
\* lease of a lane that it creates.
Commit(amount, matching, w) ==
    /\ committed + amount <= Last
    /\ committed' = committed + amount
    /\ wanted' = wanted \cup matching
    /\ row' = [s \in Events |-> IF s \in matching THEN [NoRow EXCEPT !.status = "waiting"] ELSE row[s]]
    /\ IF matching = {} THEN UNCHANGED <<lane, hand>>
       ELSE LET first == Min(matching) IN
         IF Exists(0)
         THEN /\ lane' = [lane EXCEPT ![0].waiting = @ + Cardinality(matching)]
              /\ UNCHANGED hand
         ELSE \E leases \in BOOLEAN :
              /\ leases => ~Holds(w)
              /\ lane' = [lane EXCEPT ![0] = [waiting |-> Cardinality(matching), done |-> first - 1,
                    token |-> IF leases THEN NewToken ELSE 0]]
              /\ hand' = IF leases
                    THEN [hand EXCEPT ![w] = [lane |-> 0, token |-> NewToken, done |-> first - 1,
                                              event |-> first, answer |-> "none"]]
                    ELSE hand
    /\ UNCHANGED <<deleted, arrived, disorder, requeued>>

Claim(w, a) ==
    /\ ~Holds(w) /\ ~deleted
    /\ Exists(a) /\ Heads(a) # {}
    /\ lane' = [lane EXCEPT ![a].token = NewToken]
    /\ hand' = [hand EXCEPT ![w] = [lane |-> a, token |-> NewToken, done |-> lane[a].done,
                                    event |-> Min(Heads(a)), answer |-> "none"]]
    /\ UNCHANGED <<committed, row, deleted, wanted, arrived, disorder, requeued>>

\* A process that stops gives back what it has not sent.
Release(w) ==
    /\ Holds(w) /\ hand[w].answer = "none"
    /\ lane' = IF MayRecord(w) THEN [lane EXCEPT ![hand[w].lane].token = 0] ELSE lane
    /\ hand' = [hand EXCEPT ![w] = Idle]
    /\ UNCHANGED <<committed, row, deleted, wanted, arrived, disorder, requeued>>

\* The receiver gets it and the worker its answer; or the receiver gets it and the answer is lost; or neither.
Send(w, answer, arrives) ==
    /\ Holds(w) /\ hand[w].answer = "none"
    /\ answer = "good" => arrives
    /\ hand' = [hand EXCEPT ![w].answer = answer]
    /\ arrived' = IF arrives THEN arrived \cup {hand[w].event} ELSE arrived
    /\ disorder' = (disorder \/
        /\ arrives /\ hand[w].lane = 0 /\ hand[w].event \notin arrived /\ ~deleted
        \* An earlier one waits before it. What a replay has queued meanwhile comes after what is under way.
        /\ \E s \in Queue(0) : s < hand[w].event /\ s \notin arrived /\ ~row[s].replayed)
    /\ UNCHANGED <<committed, row, lane, deleted, wanted, requeued>>

\* What becomes of the lane that event `hand[w].event` leaves.
After(w) ==
    LET a == hand[w].lane
        is_last == lane[a].waiting <= 1
    IN IF is_last THEN NoLane
       ELSE [waiting |-> lane[a].waiting - 1,
             \* Unless a replay has lowered it meanwhile.
             done |-> IF lane[a].done = hand[w].done \/ Fault = "done without a look" THEN hand[w].event
                      ELSE lane[a].done,
             token |-> 0]

\* The outcome of an attempt: finished, again in the same lane, or aside in a lane of its own.
Record(w, outcome) ==
    /\ Holds(w) /\ hand[w].answer # "none"
    /\ hand' = [hand EXCEPT ![w] = Idle]
    /\ outcome = "finished" \/ hand[w].answer = "bad"
    /\ outcome = "aside" => hand[w].lane = 0
    /\ LET a == hand[w].lane
           s == hand[w].event
           judged == [row[s] EXCEPT !.tried = TRUE, !.error = hand[w].answer = "bad"]
       IN IF ~MayRecord(w) THEN UNCHANGED <<row, lane>>
          ELSE CASE outcome = "finished" ->
                    /\ row' = [row EXCEPT ![s] = [judged EXCEPT
                            !.status = IF hand[w].answer = "good" THEN "delivered" ELSE "failed"]]
                    /\ lane' = [lane EXCEPT ![a] = After(w)]
               [] outcome = "again" ->
                    /\ row' = [row EXCEPT ![s] = [judged EXCEPT !.status = "waiting"]]
                    /\ lane' = [lane EXCEPT ![a].token = 0]
               [] outcome = "aside" ->
                    /\ row' = [row EXCEPT ![s] = [judged EXCEPT !.status = "waiting", !.aside = TRUE]]
                    /\ lane' = [lane EXCEPT ![a] = After(w),
                            ![s] = [waiting |-> 1, done |-> s - 1, token |-> 0]]
    /\ UNCHANGED <<committed, deleted, wanted, arrived, disorder, requeued>>

Crash(w) ==
    /\ Holds(w)
    /\ hand' = [hand EXCEPT ![w] = Idle]
    /\ UNCHANGED <<committed, row, lane, deleted, wanted, arrived, disorder, requeued>>

\* Its lanes and its deliveries go too; in the code in batches, and only workers that hold a claim could still notice.
Delete ==
    /\ Deletes /\ ~deleted
    /\ deleted' = TRUE
    /\ row' = [s \in Events |-> NoRow]
    /\ lane' = [a \in Lanes |-> NoLane]
    /\ UNCHANGED <<committed, hand, wanted, arrived, disorder, requeued>>

\* What was delivered long ago leaves the log.
Prune(s) ==
    /\ row[s].status = "delivered"
    /\ row' = [row EXCEPT ![s] = NoRow]
    /\ UNCHANGED <<committed, lane, hand, deleted, wanted, arrived, disorder, requeued>>

Requeue == requeued < Requeues /\ requeued' = requeued + 1

\* One delivery again, at once: in a lane of its own.
Resend(s) ==
    /\ Requeue /\ ~deleted
    /\ row[s].status \in {"delivered", "failed"}
    /\ row' = [row EXCEPT ![s].status = "waiting", ![s].aside = TRUE]
    /\ lane' = [lane EXCEPT ![s] =
            [waiting |-> lane[s].waiting + 1, done |-> s - 1, token |-> 0]]
    /\ UNCHANGED <<committed, hand, deleted, wanted, arrived, disorder>>

\* A replay queues these in the customer's lane: finished ones, and such as this webhook never got.
Replay(batch) ==
    /\ Requeue /\ ~deleted
    /\ batch # {} /\ \A s \in batch : s <= committed /\ row[s].status # "waiting"
    /\ row' = [s \in Events |-> IF s \in batch
            THEN [row[s] EXCEPT !.status = "waiting", !.aside = FALSE, !.replayed = TRUE] ELSE row[s]]
    /\ LET before == Min(batch) - 1 IN
       lane' = IF ~Exists(0)
         THEN [lane EXCEPT ![0] = [waiting |-> Cardinality(batch), done |-> before,
                                   token |-> 0]]
         ELSE [lane EXCEPT ![0].waiting = @ + Cardinality(batch),
                ![0].done = IF Fault = "replay keeps done" THEN Min({@, before}) ELSE Min({@ - 1, before})]
    /\ UNCHANGED <<committed, hand, deleted, wanted, arrived, disorder>>

\* A stopped replay takes back what it queued, also under way: as it was before, or away if it was never sent.
StopReplay(a, batch) ==
    /\ Requeue /\ ~deleted
    /\ Exists(a)
    /\ batch # {} /\ \A s \in batch : s \in Queue(a) /\ row[s].replayed
    /\ row' = [s \in Events |-> IF s \notin batch THEN row[s]
            ELSE IF ~row[s].tried THEN NoRow
            ELSE [row[s] EXCEPT !.status = IF row[s].error THEN "failed" ELSE "delivered", !.replayed = FALSE]]
    /\ lane' = [lane EXCEPT ![a] =
            IF lane[a].waiting <= Cardinality(batch) THEN NoLane
            ELSE [lane[a] EXCEPT !.waiting = @ - Cardinality(batch),
                                 !.token = IF Fault = "stop keeps the token" THEN @ ELSE 0]]
    /\ UNCHANGED <<committed, hand, deleted, wanted, arrived, disorder>>

\* Steps that change nothing that is stored.
Hidden ==
    \/ \E w \in Workers : Crash(w)
    \/ \E w \in Workers, answer \in {"good", "bad"}, arrives \in BOOLEAN : Send(w, answer, arrives)

Visible ==
    \/ \E amount \in 1..Together, w \in Workers :
        \E matching \in SUBSET ((committed + 1)..(committed + amount)) :
            /\ deleted => matching = {}
            /\ Commit(amount, matching, w)
    \/ \E w \in Workers, a \in Lanes : Claim(w, a)
    \/ \E w \in Workers : Release(w)
    \/ \E w \in Workers, outcome \in {"finished", "again", "aside"} : Record(w, outcome)
    \/ Delete
    \/ \E s \in Events : Prune(s) \/ Resend(s)
    \/ \E batch \in SUBSET Events : Replay(batch) \/ \E a \in Lanes : StopReplay(a, batch)

Next == Hidden \/ Visible
Alike == Permutations(Workers)
Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
\* A lane exists while something waits in it, counts it, and a claim finds all of it.
NothingStranded == deleted \/ \A a \in Lanes :
    /\ lane[a].waiting = Cardinality(Queue(a))
    /\ Exists(a) => Heads(a) = Queue(a)

\* What the webhook wanted waits, failed for good, or arrived.
NothingLost == deleted \/ \A s \in wanted : row[s].status = "none" => s \in arrived

DeliveredMeansArrived == \A s \in Events : row[s].status = "delivered" => s \in arrived

InOrder == ~disorder

\* Of all who hold a claim of a lane, at most one may record.
OneOwner == \A v, w \in Workers :
    v # w /\ Holds(v) /\ Holds(w) /\ hand[v].lane = hand[w].lane => ~(MayRecord(v) /\ MayRecord(w))
=============================================================================
