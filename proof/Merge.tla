-------------------------------- MODULE Merge -------------------------------
(***************************************************************************)
(* Customers who become one, and purchases that change hands, while others *)
(* buy.                                                                    *)
(*                                                                         *)
(* Modelled: purchases (`Changes._commit`: first one statement without     *)
(* locks, then under locks), log-ins, transfers by the operator, and a     *)
(* purchase that somebody else shows (`restore`).  Rows are locked as      *)
(* PostgreSQL does it under READ COMMITTED: the statement `lock_customers` *)
(* finds the rows of the ids when it begins, then waits for one row after  *)
(* the other, and leaves out a row that was deleted meanwhile.  What a     *)
(* transaction writes, it writes when it commits; nobody sees a part of    *)
(* it.  It may die before.                                                 *)
(*                                                                         *)
(* Left out, and why that is safe:                                         *)
(*  - what a purchase is and does later: it changes the owner's row only,  *)
(*    under the same check of the revision as buying;                      *)
(*  - erasure of customers: then a purchase has no owner on purpose;       *)
(*  - positions in the feed (see Feed.tla), deliveries (see Lanes.tla);    *)
(*  - test clocks, attributes, balances: they are part of the same row;    *)
(*  - projects that keep a purchase with its owner: they move less;        *)
(*  - deadlocks: PostgreSQL ends one of the two, which is a crash here.    *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
    AnonymousIds, NamedIds, Purchases, Workers, MostRequests,
    MostClaims, \* how often one request takes a purchase over (`_CLAIMS`)
    Fault

VARIABLES
    alias,      \* table `aliases`: the row of each id; 0 if nobody has it
    row,        \* table `customers`, with the state that is stored in it
    rows,       \* how many rows were ever made
    owner,      \* table `purchase_owners`; 0 if nobody has bought it
    into,       \* table `absorbed_customers`
    told,       \* table `events`
    lock,       \* the worker that holds each row's lock
    work,       \* what each worker is about to do
    requests,   \* how many there were
    misordered, \* for a property: an event got a number that does not tell what was before it
    denied      \* for a property: a customer that exists was not found

vars == <<alias, row, rows, owner, into, told, lock, work, requests, misordered, denied>>
tables == <<alias, row, rows, owner, into, told, misordered>>

Ids == AnonymousIds \cup NamedIds
Keys == 1..Cardinality(Ids)
Nobody == "nobody"
NoId == "no id"
Max(a, b) == IF a > b THEN a ELSE b
IdsOf(k) == {id \in Ids : alias[id] = k}
IsAnonymous(k) == IdsOf(k) \subseteq AnonymousIds
NewRow == [alive |-> FALSE, sequence |-> 0, revision |-> 0, owns |-> {}]
Idle == [at |-> "idle", what |-> "", id |-> NoId, other |-> NoId, purchase |-> Nobody, key |-> 0, seen |-> NewRow,
         found |-> [id \in Ids |-> 0], todo |-> {}, claims |-> 0]

Init ==
    /\ alias = [id \in Ids |-> 0]
    /\ row = [k \in Keys |-> NewRow]
    /\ rows = 0
    /\ owner = [p \in Purchases |-> 0]
    /\ into = [k \in Keys |-> 0]
    /\ told = {}
    /\ lock = [k \in Keys |-> Nobody]
    /\ work = [w \in Workers |-> Idle]
    /\ requests = 0
    /\ misordered = FALSE
    /\ denied = FALSE

-----------------------------------------------------------------------------
\* What a transaction leaves behind.

Unlocked(w) == [k \in Keys |-> IF lock[k] = w THEN Nobody ELSE lock[k]]
Done(w) == lock' = Unlocked(w) /\ work' = [work EXCEPT ![w] = Idle]
\* Rolled back, or committed with something still to do.
GoTo(w, at) ==
    /\ lock' = Unlocked(w)
    /\ work' = [work EXCEPT ![w] = [Idle EXCEPT !.at = at, !.what = work[w].what, !.id = work[w].id,
                                                !.other = work[w].other, !.purchase = work[w].purchase,
                                                !.claims = work[w].claims]]

\* `UnitOfWork.plan`: the number of the event, and for a merge the numbers that went before it.
Tell(k, sequence, merged) ==
    /\ told' = told \cup {[key |-> k, sequence |-> sequence, merged |-> merged]}
    /\ misordered' = (misordered \/ \E e \in told : (e.key = k \/ into'[e.key] = k) /\ e.sequence >= sequence)

\* `write_changes`: a customer who buys. `before` is the state that the new one is made from.
Bought(k, before, p) ==
    /\ row' = [row EXCEPT ![k] =
        [alive |-> TRUE, sequence |-> before.sequence + 1, revision |-> row[k].revision + 1, owns |-> before.owns \cup {p}]]
    /\ owner' = [owner EXCEPT ![p] = k]
    /\ UNCHANGED into
    /\ Tell(k, before.sequence + 1, {})

\* `write_changes` with `created`: the id is free, and so is the purchase.
BoughtByNewcomer(id, p) ==
    /\ rows' = rows + 1
    /\ alias' = [alias EXCEPT ![id] = rows + 1]
    /\ Bought(rows + 1, NewRow, p)

\* `_Pair.merge`: `records.absorb`, `UnitOfWork.absorb` and `commit`, for a row `t` that may be made by the same transaction.
Merged(s, t, before) ==
    LET sequence == IF Fault = "the number goes on from the survivor's"
                    THEN before.sequence + 1
                    ELSE Max(row[s].sequence, before.sequence) + 1
    IN
    /\ row' = [row EXCEPT ![s] = [@ EXCEPT !.alive = FALSE, !.owns = {}],
                          ![t] = [alive |-> TRUE, sequence |-> sequence, revision |-> row[t].revision + 1,
                                  owns |-> before.owns \cup row[s].owns]]
    /\ owner' = [p \in Purchases |-> IF p \in row[s].owns THEN t ELSE owner[p]]
    /\ into' = [k \in Keys |-> IF k = s \/ into[k] = s THEN t ELSE into[k]]
    /\ Tell(t, sequence, {<<s, row[s].sequence>>, <<t, before.sequence>>})

\* `_Pair.transfer` and `records.move_purchases`.
Moved(s, t, before, which) ==
    /\ row' = [row EXCEPT ![s] = [@ EXCEPT !.revision = @ + 1, !.owns = @ \ which],
                          ![t] = [alive |-> TRUE, sequence |-> before.sequence + 1, revision |-> row[t].revision + 1,
                                  owns |-> before.owns \cup which]]
    /\ owner' = [p \in Purchases |-> IF p \in which THEN t ELSE owner[p]]
    /\ UNCHANGED into
    /\ Tell(t, before.sequence + 1, {})

\* `_Pair.add_id`: an event if the customer has access.
Named(k, before, id, other) ==
    /\ alias' = [alias EXCEPT ![id] = k, ![other] = k]
    /\ UNCHANGED <<owner, into>>
    /\ IF before.owns = {}
       THEN /\ row' = [row EXCEPT ![k] = [before EXCEPT !.alive = TRUE, !.revision = @ + 1]]
            /\ UNCHANGED <<told, misordered>>
       ELSE /\ row' = [row EXCEPT ![k] = [before EXCEPT !.revision = @ + 1, !.sequence = @ + 1]]
            /\ Tell(k, before.sequence + 1, {<<k, before.sequence>>})

-----------------------------------------------------------------------------
\* Requests

Begin(w) ==
    /\ work[w].at = "idle"
    /\ requests < MostRequests
    /\ requests' = requests + 1
    /\ \/ \E id \in Ids, p \in Purchases :
            work' = [work EXCEPT ![w] = [Idle EXCEPT !.at = "look", !.what = "buy", !.id = id, !.purchase = p]]
       \/ \E id \in Ids, other \in NamedIds : id # other /\
            work' = [work EXCEPT ![w] = [Idle EXCEPT !.at = "lock", !.what = "log in", !.id = id, !.other = other]]
       \/ \E id, other \in Ids : id # other /\ alias[id] # 0 /\ alias[other] # 0 /\
            work' = [work EXCEPT ![w] = [Idle EXCEPT !.at = "lock", !.what = "transfer", !.id = id, !.other = other]]
    /\ UNCHANGED <<tables, lock, denied>>

\* `look` in `Changes._at_once`, without locks. If another customer owns the purchase: `identities.restore`.
Look(w) ==
    LET me == work[w]
        k == alias[me.id]
        has == owner[me.purchase]
    IN
    /\ me.at = "look"
    /\ work' = [work EXCEPT ![w] =
        IF has # 0 /\ has = k THEN Idle
        ELSE IF has # 0 THEN [me EXCEPT !.at = "find", !.what = "restore"]
        ELSE [me EXCEPT !.at = "write", !.key = k, !.seen = IF k = 0 THEN NewRow ELSE row[k]]]
    /\ UNCHANGED <<tables, lock, requests, denied>>

\* `write_at_once`: one statement, which waits for the row and checks its revision. A taken id, and a purchase that has an
\* owner, break a unique key. OutdatedError: `Changes._under_locks`.
WriteAtOnce(w) ==
    LET me == work[w]
        taken == alias[me.id] # 0 /\ Fault # "a taken id is taken over"
        unchanged == row[me.key].alive /\ (row[me.key].revision = me.seen.revision \/ Fault = "the revision is not checked")
    IN
    /\ me.at = "write"
    /\ me.key # 0 => lock[me.key] = Nobody
    /\ IF owner[me.purchase] # 0 \/ (IF me.key = 0 THEN taken ELSE ~unchanged)
       THEN GoTo(w, "lock") /\ UNCHANGED tables
       ELSE /\ IF me.key = 0
               THEN BoughtByNewcomer(me.id, me.purchase)
               ELSE Bought(me.key, me.seen, me.purchase) /\ UNCHANGED <<alias, rows>>
            /\ Done(w)
    /\ UNCHANGED <<requests, denied>>

\* `records.owner_of` in `identities._take_over`, without a lock: one of the owner's ids, a name if it has one.
FindOwner(w) ==
    LET me == work[w]
        k == owner[me.purchase]
        names == IF IsAnonymous(k) THEN IdsOf(k) ELSE IdsOf(k) \cap NamedIds
    IN
    /\ me.at = "find"
    /\ \E id \in names : work' = [work EXCEPT ![w] = [me EXCEPT !.at = "lock", !.other = id]]
    /\ UNCHANGED <<tables, lock, requests, denied>>

\* `records.lock`, in `Changes._lock` and in `_Pair.locked`: the rows of the ids, as the statement finds them…
BeginLock(w) ==
    LET me == work[w]
        asked == {me.id, me.other} \ {NoId}
        found == [id \in Ids |-> IF id \in asked THEN alias[id] ELSE 0]
        todo == {found[id] : id \in asked} \ {0}
    IN
    /\ me.at = "lock"
    /\ work' = [work EXCEPT ![w] = [me EXCEPT !.at = IF todo = {} THEN "locked" ELSE "locking", !.found = found, !.todo = todo]]
    /\ UNCHANGED <<tables, lock, requests, denied>>

\* … and one lock after the other, in the order of the keys. A row that is gone by then is left out; if its id leads to
\* another row now, the customer was merged, and the statement is repeated.
LockNext(w) ==
    LET me == work[w]
        k == CHOOSE j \in me.todo : \A i \in me.todo : j <= i
        left == me.todo \ {k}
        found == [id \in Ids |-> IF me.found[id] = k /\ ~row[k].alive THEN 0 ELSE me.found[id]]
        merged == \E id \in {me.id, me.other} \ {NoId} : found[id] = 0 /\ alias[id] # 0
        next == IF left # {} THEN "locking"
                ELSE IF merged /\ Fault # "a merged customer is not found" THEN "lock"
                ELSE "locked"
    IN
    /\ me.at = "locking"
    /\ lock[k] \in {Nobody, w}
    /\ lock' = IF row[k].alive THEN [lock EXCEPT ![k] = w] ELSE lock
    /\ work' = [work EXCEPT ![w] = [me EXCEPT !.at = next, !.todo = left, !.found = found]]
    /\ UNCHANGED <<tables, requests, denied>>

\* `Changes._under_locks`, after the locks. A newcomer whose id is taken is a CollisionError: `Changes.make` begins again.
BuyUnderLocks(w) ==
    LET me == work[w]
        k == me.found[me.id]
        has == owner[me.purchase]
    IN
    /\ me.at = "locked" /\ me.what = "buy"
    /\ IF has # 0 \/ (k = 0 /\ alias[me.id] # 0)
       THEN GoTo(w, "look") /\ UNCHANGED tables
       ELSE /\ IF k = 0
               THEN BoughtByNewcomer(me.id, me.purchase)
               ELSE Bought(k, row[k], me.purchase) /\ UNCHANGED <<alias, rows>>
            /\ Done(w)
    /\ UNCHANGED <<requests, denied>>

\* `identities._take_over`, after the locks. Only now is it certain who owns the purchase.
TakeOver(w) ==
    LET me == work[w]
        s == me.found[me.other]
        t == me.found[me.id]
        k == IF t = 0 THEN rows + 1 ELSE t
        before == IF t = 0 THEN NewRow ELSE row[t]
        certain == s # 0 /\ me.purchase \in row[s].owns
    IN
    /\ me.at = "locked" /\ me.what = "restore"
    /\ IF s = 0 \/ s = t \/ ~(certain \/ Fault = "the owner is not looked up again under the lock")
       THEN GoTo(w, "again") /\ UNCHANGED tables
       ELSE IF t = 0 /\ alias[me.id] # 0
       THEN GoTo(w, "find") /\ UNCHANGED tables
       ELSE /\ rows' = Max(rows, k)
            /\ IF IsAnonymous(s)
               THEN /\ Merged(s, k, before)
                    /\ alias' = [id \in Ids |-> IF alias[id] = s \/ id = me.id THEN k ELSE alias[id]]
               ELSE /\ Moved(s, k, before, {me.purchase})
                    /\ alias' = [alias EXCEPT ![me.id] = k]
            /\ GoTo(w, "again")
    /\ UNCHANGED <<requests, denied>>

\* `identities.claimed`: the purchase is attempted again; after so many times the request fails.
Again(w) ==
    LET me == work[w] IN
    /\ me.at = "again"
    /\ work' = [work EXCEPT ![w] =
        IF me.claims >= MostClaims THEN Idle
        ELSE [Idle EXCEPT !.at = "look", !.what = "buy", !.id = me.id, !.purchase = me.purchase, !.claims = me.claims + 1]]
    /\ UNCHANGED <<tables, lock, requests, denied>>

\* `identities._log_in`, after the locks, with the decision of `domain/customers/identity.py: log_in`.
LogIn(w) ==
    LET me == work[w]
        c == me.found[me.id]
        t == me.found[me.other]
        anonymous == IF c = 0 THEN me.id \in AnonymousIds ELSE IsAnonymous(c)
        free(id) == alias[id] = 0
    IN
    /\ me.at = "locked" /\ me.what = "log in"
    /\ IF t # 0 /\ (c = t \/ ~anonymous \/ IdsOf(t) \cap AnonymousIds # {})
       \* NOTHING, or SWITCH to a customer that exists.
       THEN Done(w) /\ UNCHANGED tables
       ELSE IF ~anonymous
       \* SWITCH to a new customer.
       THEN IF free(me.other)
            THEN /\ rows' = rows + 1
                 /\ alias' = [alias EXCEPT ![me.other] = rows + 1]
                 /\ row' = [row EXCEPT ![rows + 1].alive = TRUE]
                 /\ UNCHANGED <<owner, into, told, misordered>>
                 /\ Done(w)
            ELSE GoTo(w, "lock") /\ UNCHANGED tables
       ELSE IF t = 0
       \* ADD_ID
       THEN IF free(me.other) /\ (c # 0 \/ free(me.id))
            THEN LET k == IF c = 0 THEN rows + 1 ELSE c IN
                 /\ rows' = Max(rows, k)
                 /\ Named(k, IF c = 0 THEN NewRow ELSE row[c], me.id, me.other)
                 /\ Done(w)
            ELSE GoTo(w, "lock") /\ UNCHANGED tables
       \* MERGE
       ELSE IF c # 0
       THEN /\ Merged(c, t, row[t])
            /\ alias' = [id \in Ids |-> IF alias[id] = c THEN t ELSE alias[id]]
            /\ UNCHANGED rows
            /\ Done(w)
       ELSE IF free(me.id)
       THEN Named(t, row[t], me.id, me.other) /\ UNCHANGED rows /\ Done(w)
       ELSE GoTo(w, "lock") /\ UNCHANGED tables
    /\ UNCHANGED <<requests, denied>>

\* `identities._transfer`, after the locks.
Transfer(w) ==
    LET me == work[w]
        s == me.found[me.id]
        t == me.found[me.other]
    IN
    /\ me.at = "locked" /\ me.what = "transfer"
    /\ IF s = 0 \/ t = 0
       THEN UNCHANGED tables /\ denied' = TRUE /\ Done(w)
       ELSE /\ UNCHANGED <<denied, alias, rows>>
            /\ IF s = t \/ row[s].owns = {}
               THEN UNCHANGED <<row, owner, into, told, misordered>>
               ELSE Moved(s, t, row[t], row[s].owns)
            /\ Done(w)
    /\ UNCHANGED requests

\* The process dies, or its connection: PostgreSQL rolls back.
Crash(w) ==
    /\ work[w].at # "idle"
    /\ Done(w)
    /\ UNCHANGED <<tables, requests, denied>>

Next == \E w \in Workers :
    \/ Begin(w) \/ Look(w) \/ WriteAtOnce(w) \/ FindOwner(w) \/ BeginLock(w) \/ LockNext(w) \/ BuyUnderLocks(w)
    \/ TakeOver(w) \/ Again(w) \/ LogIn(w) \/ Transfer(w) \/ Crash(w)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
\* A purchase that was ever bought is in the state of exactly one customer, the one that `purchase_owners` names.
OneOwner == \A p \in Purchases :
    {k \in Keys : p \in row[k].owns} = IF owner[p] = 0 THEN {} ELSE {owner[p]}

\* That customer exists and can be reached by an id; no id leads to a customer who is gone.
Reachable ==
    /\ \A k \in Keys : row[k].alive => IdsOf(k) # {}
    /\ \A id \in Ids : alias[id] # 0 => row[alias[id]].alive
    /\ \A p \in Purchases : owner[p] # 0 => row[owner[p]].alive

\* Every event gets a higher number than all that were told before of the customer and of those merged into it.
NumbersTellTheOrder == ~misordered

\* Every number is one more than another one of the same customer, or of the higher one of those that the event of a merge
\* names; and the customer's row knows the last one.
NumbersHaveNoGap ==
    /\ \A e \in told :
        \/ e.sequence = 1
        \/ \E f \in told : f.key = e.key /\ f.sequence = e.sequence - 1
        \/ \E m \in e.merged : m[2] = e.sequence - 1 /\ \E f \in told : f.key = m[1] /\ f.sequence = m[2]
    /\ \A k \in Keys : row[k].alive =>
        /\ \A e \in told : e.key = k \/ into[e.key] = k => e.sequence <= row[k].sequence
        /\ row[k].sequence # 0 => \E e \in told : e.key = k /\ e.sequence = row[k].sequence

\* Nobody is told that a customer does not exist who does.
NobodyIsDenied == ~denied

Perms == Permutations(AnonymousIds) \cup Permutations(NamedIds) \cup Permutations(Purchases) \cup Permutations(Workers)
=============================================================================
