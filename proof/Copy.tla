-------------------------------- MODULE Copy --------------------------------
(***************************************************************************)
(* The copy that an app's server keeps of what its users hold, against     *)
(* what the service says in V2.                                            *)
(*                                                                         *)
(* Modelled: two users.  The service changes what each of them holds,      *)
(* transfers everything of one to the other (the giver gets no event), and *)
(* merges one into the other.  Each change is an event with the number,    *)
(* the holdings and the ids of its moment.  The network keeps no promise:  *)
(* an event arrives at any time after its commit, in any order and any     *)
(* number of times.  One that never arrives is brought by the sweep of the *)
(* feed, with the same function, so here it is one that arrives last.      *)
(* Meanwhile the copy is refreshed from V2, by jobs and by users' requests *)
(* at any time: the copy is read, V2 is read, and the answer is written,   *)
(* with anything in between.  The server may die between any two of these  *)
(* steps.                                                                  *)
(*                                                                         *)
(* Left out, and why that is safe:                                         *)
(*  - time: what ends by itself ends by the same instant in the copy and   *)
(*    in V2 (`LocalCopy.held`), and the service also sends an event;       *)
(*  - timestamps of events: the service always sends `sequence`;           *)
(*  - erased users and restored databases: their numbers start again, and  *)
(*    `has_restarted` and `_gone` are tested in tests/consumer;            *)
(*  - events that fail and are set aside: they are received again later,   *)
(*    which is a late arrival here;                                        *)
(*  - fields other than the entitlements;                                  *)
(*  - V2 lists of more than one page.                                      *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, Sequences

CONSTANTS
    Entitlements,
    MostEvents,     \* how many changes the service makes
    MostRevisions,  \* a bound on the writes of one copy
    Readers,        \* refreshes that run at the same time: "job" is the one of the jobs, "view" that of a user's request
    Viewed,         \* the users who make requests
    Fault

Anonymous == "a"
Named == "b"
Ids == {Anonymous, Named}
None == "none"

VARIABLES
    owner,      \* service: the customer that each id belongs to
    customer,   \* service: what each customer holds, its last number, and when it last changed
    feed,       \* service: the committed events, in order
    arrived,    \* consumer: the events that were processed, by their place in the feed
    alias,      \* consumer: the id under which the copy of each id is stored
    copy,       \* consumer: the copies
    jobs,       \* consumer: the re-read of each id: "none", "waiting", "running", or "again" if added while it runs
    reader,     \* consumer: each refresh under way
    shown       \* for the property: the newest state that each id has had in a copy

vars == <<owner, customer, feed, arrived, alias, copy, jobs, reader, shown>>
service == <<owner, customer, feed>>

Max(a, b) == IF a > b THEN a ELSE b
Empty == [exists |-> FALSE, held |-> {}, last |-> 0, read |-> 0, stale |-> FALSE, revision |-> 0, as_of |-> 0]
Idle == [at |-> "idle", asked |-> None, seen |-> None, revision |-> 0, whose |-> None, held |-> {}, sequence |-> 0, as_of |-> 0]
\* The revision is raised also if the copy is stale already: an answer that is under way may be older than the reason.
Stale(c) == [c EXCEPT !.stale = TRUE, !.revision = @ + 1]
Saved(before, after) == IF before = after THEN after ELSE [after EXCEPT !.revision = before.revision + 1]

Init ==
    /\ owner = [id \in Ids |-> id]
    /\ customer = [id \in Ids |-> [held |-> {}, sequence |-> 0, changed |-> 0]]
    /\ feed = <<>>
    /\ arrived = {}
    /\ alias = [id \in Ids |-> id]
    /\ copy = [id \in Ids |-> Empty]
    /\ jobs = [id \in Ids |-> "none"]
    /\ reader = [r \in Readers |-> Idle]
    /\ shown = [id \in Ids |-> 0]

\* The newest state in which an id was shown, after a step of the consumer.
Show == shown' = [id \in Ids |->
    LET mine == copy'[alias'[id]] IN IF mine.exists /\ ~mine.stale THEN Max(shown[id], mine.as_of) ELSE shown[id]]

-----------------------------------------------------------------------------
\* The service. Each action is one transaction: `Changes._commit`, or one of `identities.py` (see Merge.tla).

Tell(c, held, sequence, from) ==
    feed' = Append(feed, [user |-> c, held |-> held, sequence |-> sequence, from |-> from,
                          others |-> {id \in Ids : owner'[id] = c /\ id # c}])

\* A purchase, renewal, end or refund: `Changes._commit`.
Change(c) ==
    /\ Len(feed) < MostEvents
    /\ owner[c] = c
    /\ \E held \in SUBSET Entitlements \ {customer[c].held} :
        /\ customer' = [customer EXCEPT ![c] =
               [held |-> held, sequence |-> customer[c].sequence + 1, changed |-> Len(feed) + 1]]
        /\ UNCHANGED owner
        /\ Tell(c, held, customer[c].sequence + 1, {})
    /\ UNCHANGED <<arrived, alias, copy, jobs, reader, shown>>

\* `_Pair.transfer`: everything goes to the other; only the receiver gets an event.
Transfer(from, to) ==
    LET held == customer[from].held \cup customer[to].held IN
    /\ Len(feed) < MostEvents
    /\ from # to /\ owner[from] = from /\ owner[to] = to
    /\ customer[from].held # {}
    /\ customer' = [customer EXCEPT
        ![from].held = {}, ![from].changed = Len(feed) + 1,
        ![to] = [held |-> held, sequence |-> customer[to].sequence + 1, changed |-> Len(feed) + 1]]
    /\ UNCHANGED owner
    /\ Tell(to, held, customer[to].sequence + 1, {from})
    /\ UNCHANGED <<arrived, alias, copy, jobs, reader, shown>>

\* `_Pair.merge`: SUBSCRIBER_ALIAS, with a number above those of both.
Merge ==
    LET held == customer[Anonymous].held \cup customer[Named].held
        sequence == Max(customer[Anonymous].sequence, customer[Named].sequence) + 1
    IN
    /\ Len(feed) < MostEvents
    /\ owner[Anonymous] = Anonymous
    /\ owner' = [owner EXCEPT ![Anonymous] = Named]
    /\ customer' = [customer EXCEPT ![Named] = [held |-> held, sequence |-> sequence, changed |-> Len(feed) + 1]]
    /\ Tell(Named, held, sequence, {})
    /\ UNCHANGED <<arrived, alias, copy, jobs, reader, shown>>

-----------------------------------------------------------------------------
\* Events: `Intake._process`, one transaction for each batch; `rules/sync.py: apply_event`, `event_intake.py: _Work`.

Added(asked) == [id \in Ids |->
    IF id \notin asked THEN jobs[id]
    ELSE IF jobs[id] \in {"running", "again"} THEN "again" ELSE "waiting"]

Receive(i) ==
    LET e == feed[i]
        own == alias[e.user]
        known == copy[own]
        others == {id \in e.others : id # own /\ alias[id] = id /\ copy[id].exists}
        late == e.sequence < known.last /\ Fault # "late events are applied"
        comparable == e.user = own \/ known.last # 0 \/ known.read # 0
        synced == ~late /\ comparable
        included == e.sequence <= known.read
        doubtful == \/ e.user # own
                    \/ included /\ Fault # "what an answer included counts as new"
                    \/ \E id \in others : e.sequence < copy[id].last
        moved == IF Fault = "the giver of a transfer is not read again" THEN {} ELSE e.from
        fresh == {id \in e.others : alias[id] # own /\ id # own}
        asked == IF synced
                 THEN moved \cup (IF doubtful THEN {e.user, own} ELSE {}) \cup ({alias[id] : id \in fresh} \ fresh)
                 ELSE moved \cup {e.user, own} \cup others
        applied == IF ~synced THEN [known EXCEPT !.stale = TRUE]
                   ELSE [known EXCEPT !.exists = TRUE, !.held = e.held, !.last = e.sequence, !.as_of = i]
        named == [id \in Ids |-> IF synced /\ (id \in fresh \/ alias[id] \in fresh) THEN own ELSE alias[id]]
        \* `_Work._ask`: copies that are read again are stale until then.
        marked(id, c) == IF c.exists /\ (\E asking \in asked : named[asking] = id) THEN Stale(c) ELSE c
    IN
    /\ i \notin arrived \/ Fault = "duplicates are applied"
    /\ known.revision < MostRevisions
    /\ arrived' = arrived \cup {i}
    /\ alias' = named
    /\ copy' = [id \in Ids |->
        IF synced /\ id \in fresh THEN Empty
        ELSE Saved(copy[id], marked(id, IF id = own THEN applied ELSE copy[id]))]
    /\ jobs' = Added(asked)
    /\ Show
    /\ UNCHANGED <<owner, customer, feed, reader>>

-----------------------------------------------------------------------------
\* Refreshes: `BillingService.refresh`, for `billing_service.py: view` and for jobs (`reference_consumer.py`).

\* `BillingService.local`.
Start(r, id) ==
    /\ reader[r].at = "idle"
    /\ IF r = "job" THEN jobs[id] = "waiting" ELSE id \in Viewed
    /\ reader' = [reader EXCEPT ![r] =
        IF copy[alias[id]].exists
        THEN [Idle EXCEPT !.at = "started", !.asked = id, !.seen = alias[id], !.revision = copy[alias[id]].revision]
        ELSE [Idle EXCEPT !.at = "started", !.asked = id]]
    /\ jobs' = IF r = "job" THEN [jobs EXCEPT ![id] = "running"] ELSE jobs
    /\ UNCHANGED <<owner, customer, feed, arrived, alias, copy, shown>>

\* `BillingService.read`, where the service answers. A fault: it answers from a standby that lags by one change.
ReadV2(r) ==
    LET me == reader[r]
        whose == owner[me.asked]
        now == customer[whose]
        answer == [me EXCEPT !.at = "read", !.whose = whose, !.held = now.held, !.sequence = now.sequence, !.as_of = now.changed]
    IN
    /\ me.at = "started"
    /\ \/ reader' = [reader EXCEPT ![r] = answer]
       \/ /\ Fault = "V2 answers from a standby that lags"
          /\ \E i \in DOMAIN feed : feed[i].user = whose /\ feed[i].sequence + 1 = now.sequence
                /\ reader' = [reader EXCEPT ![r] =
                    [answer EXCEPT !.held = feed[i].held, !.sequence = feed[i].sequence, !.as_of = i]]
    /\ UNCHANGED <<owner, customer, feed, arrived, alias, copy, jobs, shown>>

Finished(r) ==
    IF r # "job" THEN jobs
    ELSE [jobs EXCEPT ![reader[r].asked] =
        IF @ = "again" /\ Fault # "a job that was added again is finished" THEN "waiting" ELSE "none"]

\* `BillingService._overwrite`, with `apply_snapshot`. If the copy has changed since `local`, or the id has become one of
\* another customer, everything is read again.
Overwrite(r) ==
    LET me == reader[r]
        \* `Copies.name` and `Copies.remove_alias`.
        known == copy[alias[me.asked]]
        changed == /\ IF me.seen = None THEN known.exists ELSE alias[me.asked] # me.seen \/ known.revision # me.revision
                   /\ Fault \notin {"an answer is used although the copy has changed", "an answer undoes a merge"}
        named == IF changed THEN alias ELSE [alias EXCEPT ![me.asked] = me.whose]
        dropped == IF changed \/ me.asked = me.whose \/ alias[me.asked] = me.whose THEN {} ELSE {me.asked}
        current == copy[me.whose]
        \* The id leads to a copy that was not looked at before the answer.
        unseen == ~changed /\ current.exists /\ me.seen # me.whose /\ Fault # "an answer is used although the copy has changed"
        outdated == changed \/ unseen
        after == [current EXCEPT !.exists = TRUE, !.held = me.held, !.read = me.sequence, !.stale = FALSE, !.as_of = me.as_of,
                                 !.last = IF me.sequence < @ THEN me.sequence ELSE @]
        kept == [id \in Ids |->
            IF id \in dropped THEN Empty
            ELSE IF unseen /\ id = me.whose /\ Fault # "a merged id is answered from an older copy"
                 THEN Stale(copy[id])
                 ELSE copy[id]]
    IN
    /\ me.at = "read"
    /\ current.revision < MostRevisions
    /\ alias' = named
    /\ IF outdated
       THEN /\ copy' = kept
            /\ reader' = [reader EXCEPT ![r] =
                IF kept[named[me.asked]].exists
                THEN [Idle EXCEPT !.at = "started", !.asked = me.asked, !.seen = named[me.asked],
                                  !.revision = kept[named[me.asked]].revision]
                ELSE [Idle EXCEPT !.at = "started", !.asked = me.asked]]
            /\ jobs' = IF unseen THEN Added({me.whose}) ELSE jobs
       ELSE /\ copy' = [kept EXCEPT ![me.whose] = Saved(current, after)]
            /\ reader' = [reader EXCEPT ![r] = Idle]
            /\ jobs' = Finished(r)
    /\ Show
    /\ UNCHANGED <<owner, customer, feed, arrived>>

\* The server dies, or V2 does not answer: a job is run again (`Jobs.claim` after the lease, `Jobs.postpone`).
Fail(r) ==
    /\ reader[r].at # "idle"
    /\ reader' = [reader EXCEPT ![r] = Idle]
    /\ jobs' = IF r = "job" THEN [jobs EXCEPT ![reader[r].asked] = "waiting"] ELSE jobs
    /\ UNCHANGED <<owner, customer, feed, arrived, alias, copy, shown>>

Next ==
    \/ \E c \in Ids : Change(c)
    \/ \E c, d \in Ids : Transfer(c, d)
    \/ Merge
    \/ \E i \in DOMAIN feed : Receive(i)
    \/ \E r \in Readers : ReadV2(r) \/ Overwrite(r) \/ Fail(r) \/ \E id \in Ids : Start(r, id)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
Seen(id) == copy[alias[id]]

\* Everything has arrived and nothing is under way.
Drained ==
    /\ arrived = DOMAIN feed
    /\ \A id \in Ids : jobs[id] = "none"
    /\ \A r \in Readers : reader[r].at = "idle"

\* Then every copy is what V2 says, whichever id one asks with. (Without a copy every request asks V2.)
Converged == Drained => \A id \in Ids : Seen(id).exists => ~Seen(id).stale /\ Seen(id).held = customer[owner[id]].held

\* What a user is answered from the copy is never older than what was shown before. (A stale copy does not answer while V2
\* can be asked.)
NeverBack == \A id \in Ids : Seen(id).exists /\ ~Seen(id).stale => Seen(id).as_of >= shown[id]

\* No copy, not even a stale one, holds what its customer never held.
NothingInvented == \A id \in Ids : copy[id].exists =>
    \/ copy[id].held = {}
    \/ \E i \in DOMAIN feed : feed[i].held = copy[id].held /\ owner[feed[i].user] = owner[id]
=============================================================================
