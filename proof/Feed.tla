-------------------------------- MODULE Feed --------------------------------
(***************************************************************************)
(* The feed of one project: every event gets a position, and a reader goes *)
(* on from the position, or from the event, that it has read last.         *)
(*                                                                         *)
(* Modelled: writers that follow `Changes._commit` (first without locks,   *)
(* then under locks), the statements of the SQL function `write_changes`   *)
(* that matter for the feed, new partitions, and the four kinds of         *)
(* readers.  PostgreSQL runs READ COMMITTED: each statement sees what is   *)
(* committed when it begins, and an UPDATE that had to wait for a row sees *)
(* the newest version of that row.  A writer may die between any two       *)
(* statements: PostgreSQL then forgets its transaction and its locks.  A   *)
(* client that got no answer sends the same change again, perhaps after    *)
(* it was committed.                                                       *)
(*                                                                         *)
(* Left out, and why that is safe:                                         *)
(*  - other projects: each has its own row in `feeds` and its own events;  *)
(*  - deliveries: they are rows of the same transaction (see Lanes.tla);   *)
(*  - what a change means: an event is its id, its customer and its        *)
(*    number.  The same id may come for two customers, as after a          *)
(*    transfer: that is the hardest case for "each event once";            *)
(*  - erasure: it rewrites bodies and never positions or ids;              *)
(*  - a restored database: positions skip ahead once, by operator command, *)
(*    before any writer is admitted.  Readers follow the order of          *)
(*    positions and never compute the next one.                            *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, Sequences, TLC

CONSTANTS
    Writers,        \* transactions that run at the same time
    Customers,
    EventIds,       \* what can happen; each at most once
    LargestBatch,   \* events in one transaction
    LastPartition,  \* partitions are 0..LastPartition
    PartsOfEvents,  \* so many partitions share one table of events (1000 in the code)
    Limit,          \* events in a page
    Fault

VARIABLES
    newest,     \* the highest number in the table `partitions`
    feed,       \* the committed row of `feeds`: position and partition
    feedLock,   \* the writer that has updated it and not yet committed
    sequence,   \* of each customer; it also stands for the row's revision
    rowLock,    \* the writer that holds a customer's row
    events,     \* the committed rows of `events`
    writer,     \* what each writer is about to do
    reader      \* one reader: its kind, where it is, and what it has read

vars == <<newest, feed, feedLock, sequence, rowLock, events, writer, reader>>

Nobody == "nobody"
Max(a, b) == IF a > b THEN a ELSE b
Known == {e.id : e \in events}
Range(s) == {s[i] : i \in DOMAIN s}
Idle == [at |-> "idle", ids |-> <<>>, customer |-> Nobody, sequence |-> 0, partition |-> 0, head |-> 0]
Batches == {b \in UNION {[1..n -> EventIds] : n \in 1..LargestBatch} : Cardinality(Range(b)) = Len(b)}
Kinds == {"position", "event", "head", "range"}

Init ==
    /\ newest = 0
    /\ feed = [position |-> 0, partition |-> 0]
    /\ feedLock = Nobody
    /\ sequence = [c \in Customers |-> 0]
    /\ rowLock = [c \in Customers |-> Nobody]
    /\ events = {}
    /\ writer = [w \in Writers |-> Idle]
    /\ reader \in [kind : Kinds, cursor : {0}, until : {0}, pages : {<<>>}]

-----------------------------------------------------------------------------
\* Writers

\* `look` (engine/storage/read_rows.py) in `Changes._at_once`: reads without a lock.
Look(w) ==
    /\ writer[w].at = "idle"
    /\ \E ids \in Batches, c \in Customers :
        writer' = [writer EXCEPT ![w] =
            [Idle EXCEPT !.at = "looked", !.ids = ids, !.customer = c, !.sequence = sequence[c]]]
    /\ UNCHANGED <<newest, feed, feedLock, sequence, rowLock, events, reader>>

\* `update customers … where revision = …`, the first part of `write_changes`. It waits for whoever holds the row. LK001 if
\* the row has changed since the look: `write_at_once` raises OutdatedError, and `Changes._under_locks` does it again.
SaveCustomer(w) ==
    LET me == writer[w] IN
    /\ me.at = "looked"
    /\ rowLock[me.customer] = Nobody
    /\ IF me.sequence = sequence[me.customer] \/ Fault = "the revision is not checked"
       THEN /\ rowLock' = [rowLock EXCEPT ![me.customer] = w]
            /\ writer' = [writer EXCEPT ![w].at = "saved"]
       ELSE /\ writer' = [writer EXCEPT ![w].at = "outdated"]
            /\ UNCHANGED rowLock
    /\ UNCHANGED <<newest, feed, feedLock, sequence, events, reader>>

\* `records.lock` in `Changes._lock`, and `event_feed.known` in `UnitOfWork.commit`: events that exist are not written again.
LockCustomer(w) ==
    LET me == writer[w]
        left == SelectSeq(me.ids, LAMBDA id : id \notin Known)
    IN
    /\ me.at = "outdated"
    /\ rowLock[me.customer] = Nobody
    /\ IF left = <<>>
       THEN /\ writer' = [writer EXCEPT ![w] = Idle]
            /\ UNCHANGED rowLock
       ELSE /\ writer' = [writer EXCEPT ![w].at = "saved", ![w].ids = left, ![w].sequence = sequence[me.customer]]
            /\ rowLock' = [rowLock EXCEPT ![me.customer] = w]
    /\ UNCHANGED <<newest, feed, feedLock, sequence, events, reader>>

\* `current_partition := (select max(p.partition) from partitions p)` in `write_changes`.
ReadPartition(w) ==
    /\ writer[w].at = "saved"
    /\ writer' = [writer EXCEPT ![w].at = "placed", ![w].partition = newest]
    /\ UNCHANGED <<newest, feed, feedLock, sequence, rowLock, events, reader>>

\* `update feeds set position = position + …, partition = greatest(…)` in `write_changes`. The row stays locked until the
\* commit. With a sequence instead, the number is taken at once and nobody waits.
TakePositions(w) ==
    LET me == writer[w]
        partition == IF Fault = "the partition that was read is used" THEN me.partition ELSE Max(feed.partition, me.partition)
    IN
    /\ me.at = "placed"
    /\ feedLock = Nobody
    /\ writer' = [writer EXCEPT ![w].at = "positioned", ![w].partition = partition, ![w].head = feed.position]
    /\ IF Fault = "positions come from a sequence"
       THEN feed' = [position |-> feed.position + Len(me.ids), partition |-> partition] /\ UNCHANGED feedLock
       ELSE feedLock' = w /\ UNCHANGED feed
    /\ UNCHANGED <<newest, sequence, rowLock, events, reader>>

\* `insert into events`, and the end of the transaction: of the one statement in `write_at_once`, or of `hot_transaction` in
\* `_under_locks`. The index of the partition's table knows the ids of that table, a lookup finds those in older ones. If an
\* id exists, everything is rolled back and done again by `Changes._under_locks`.
Commit(w) ==
    LET me == writer[w]
        table == me.partition \div PartsOfEvents
        clash == \E e \in events :
            /\ e.id \in Range(me.ids)
            /\ \/ e.partition \div PartsOfEvents = table
               \/ /\ Fault # "ids are unique in their partition only"
                  /\ e.partition \div PartsOfEvents < table
    IN
    /\ me.at = "positioned"
    /\ IF clash
       THEN /\ writer' = [writer EXCEPT ![w] = [Idle EXCEPT !.at = "outdated", !.ids = me.ids, !.customer = me.customer]]
            /\ UNCHANGED <<feed, sequence, events>>
       ELSE /\ events' = events \cup {
                   [position |-> me.head + i, id |-> me.ids[i], customer |-> me.customer, sequence |-> me.sequence + i,
                    partition |-> me.partition] : i \in DOMAIN me.ids}
            /\ sequence' = [sequence EXCEPT ![me.customer] = me.sequence + Len(me.ids)]
            /\ feed' = IF feedLock = w THEN [position |-> me.head + Len(me.ids), partition |-> me.partition] ELSE feed
            /\ writer' = [writer EXCEPT ![w] = Idle]
    /\ feedLock' = IF feedLock = w THEN Nobody ELSE feedLock
    /\ rowLock' = [rowLock EXCEPT ![me.customer] = Nobody]
    /\ UNCHANGED <<newest, reader>>

\* The process dies, or its connection: PostgreSQL rolls back.
Crash(w) ==
    /\ writer[w].at # "idle"
    /\ rowLock' = [c \in Customers |-> IF rowLock[c] = w THEN Nobody ELSE rowLock[c]]
    /\ feedLock' = IF feedLock = w THEN Nobody ELSE feedLock
    /\ writer' = [writer EXCEPT ![w] = Idle]
    /\ UNCHANGED <<newest, feed, sequence, events, reader>>

\* `open_partition`, called by `role.py` of the delivery.
OpenPartition ==
    /\ newest < LastPartition
    /\ newest' = newest + 1
    /\ UNCHANGED <<feed, feedLock, sequence, rowLock, events, writer, reader>>

-----------------------------------------------------------------------------
\* Readers. `pages` has the positions in the order in which they were read.

Ordered(found) ==
    LET by == {e.position : e \in found}
        nth(i) == CHOOSE p \in by : Cardinality({q \in by : q < p}) = i - 1
    IN [i \in 1..Cardinality(by) |-> nth(i)]
First(s) == SubSeq(s, 1, IF Len(s) < Limit THEN Len(s) ELSE Limit)
Last(s, otherwise) == IF s = <<>> THEN otherwise ELSE s[Len(s)]
After(position) == {e \in events : e.position > position}

\* `events_of_project`, for the first page of the V2 list, `bodies`, and for `Tail._look` of a live view.
ReadByPosition ==
    LET page == First(Ordered(After(reader.cursor))) IN
    /\ reader.kind = "position"
    /\ page # <<>>
    /\ reader' = [reader EXCEPT !.cursor = Last(page, @), !.pages = @ \o page]

\* `events_after_event`, for V2's `starting_after` and so for the consumer's sweep: partitions before that of the event
\* are not read. The cursor is the event's position here, because the query looks it up by the event's id.
ReadAfterEvent ==
    LET at == {e \in events : e.position = reader.cursor}
        from == IF at = {} THEN 0 ELSE (CHOOSE e \in at : TRUE).partition
        page == First(Ordered({e \in After(reader.cursor) : e.partition >= from}))
    IN
    /\ reader.kind = "event"
    /\ page # <<>>
    /\ reader' = [reader EXCEPT !.cursor = Last(page, @), !.pages = @ \o page]

\* `facets_batch` of the customer lists, and an export: one snapshot has the events and the head. With less than a full
\* page the cursor becomes the head. A fault: the head is asked for by a second statement, after the events.
ReadToHead ==
    LET page == First(Ordered(After(reader.cursor))) IN
    /\ reader.kind = "head"
    /\ Fault # "the head is read after the events"
    /\ reader.cursor < feed.position
    /\ reader' = [reader EXCEPT !.pages = @ \o page,
        !.cursor = IF Len(page) < Limit THEN Max(@, feed.position) ELSE Last(page, @)]

ReadThenHead ==
    LET page == First(Ordered(After(reader.cursor))) IN
    /\ reader.kind = "head"
    /\ Fault = "the head is read after the events"
    /\ IF reader.until = 0
       THEN reader' = [reader EXCEPT !.pages = @ \o page, !.until = IF Len(page) < Limit THEN 1 ELSE 0,
                                     !.cursor = Last(page, @)]
       ELSE reader' = [reader EXCEPT !.until = 0, !.cursor = Max(@, feed.position)]

\* `requeue_runs.py`: the end is asked for first (`feed_end`), and the range up to it is read page by page, later.
ReadEnd ==
    /\ reader.kind = "range"
    /\ reader.until = reader.cursor
    /\ reader' = [reader EXCEPT !.until = feed.position]

ReadRange ==
    LET page == First(Ordered({e \in After(reader.cursor) : e.position <= reader.until})) IN
    /\ reader.kind = "range"
    /\ reader.cursor < reader.until
    /\ reader' = [reader EXCEPT !.pages = @ \o page, !.cursor = IF Len(page) < Limit THEN reader.until ELSE Last(page, @)]

Read ==
    /\ ReadByPosition \/ ReadAfterEvent \/ ReadToHead \/ ReadThenHead \/ ReadEnd \/ ReadRange
    /\ UNCHANGED <<newest, feed, feedLock, sequence, rowLock, events, writer>>

Write(w) ==
    \/ Look(w) \/ SaveCustomer(w) \/ LockCustomer(w) \/ ReadPartition(w) \/ TakePositions(w)
    \/ Commit(w) \/ Crash(w)

Next == OpenPartition \/ Read \/ \E w \in Writers : Write(w)
Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
\* Whatever is committed at or below the cursor, now or later, was read.
NothingIsMissed == \A e \in events : e.position <= reader.cursor => e.position \in Range(reader.pages)

\* Nothing is read twice, and everything in the order of positions.
ReadInOrder == \A i, j \in DOMAIN reader.pages : i < j => reader.pages[i] < reader.pages[j]

\* The committed positions are 1, 2, … up to the head, each once.
NoGap == {e.position : e \in events} = 1..feed.position /\ Cardinality(events) = feed.position

EachEventOnce == \A e, f \in events : e.id = f.id => e = f

\* A later event of the project is never in an older partition.
PartitionsOnlyGrow == \A e, f \in events : e.position < f.position => e.partition <= f.partition

\* A customer's events are numbered 1, 2, … in the order of the feed.
NumberedInOrder ==
    \A c \in Customers :
        LET mine == {e \in events : e.customer = c} IN
        /\ {e.sequence : e \in mine} = 1..Cardinality(mine)
        /\ \A e, f \in mine : e.position < f.position => e.sequence < f.sequence

Perms == Permutations(Writers) \cup Permutations(Customers) \cup Permutations(EventIds)
=============================================================================
