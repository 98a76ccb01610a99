/*
 * One job of Duly, its workers, its bus, its receiver and the people around it. README.md of this folder says what
 * each part stands for, what is left out and why that is all right; `check` runs every configuration.
 *
 * Every event of the ledger's state machine is one inline, named as in internal/machine, and one step: a transaction
 * of the ledger. Everything else (a byte written, an answer on its way, a second that passes) is a step of its own,
 * and steps of all processes interleave freely. So a worker may rest, for as long as the clock lets it, between any
 * two of its steps.
 */

/* ---- Configuration: every name may be given with -D ---------------------------------------------------------- */

#ifndef GENS
#define GENS 2			/* generations of the job at most: what max_lifetime allows */
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 2		/* max_attempts: leases of a generation that were not handed back */
#endif
#ifndef WINDOW
#define WINDOW 0		/* the receiver dedupes for so long; 0: it does not */
#endif
#ifndef LOOKUP
#define LOOKUP 0		/* the receiver can be asked; else only a person finds out */
#endif
#ifndef DEADLINE
#define DEADLINE 0		/* of each generation, from its beginning; 0: none. max_age acts alike */
#endif
#ifndef FORCE
#define FORCE 0			/* a person may force the redrive of what is unknown */
#endif
#ifndef CALM
#define CALM 0			/* nobody holds or cancels */
#endif

/* The units of time. All are one by default, so that everything that can meet at an instant does. */
#ifndef LIMIT
#define LIMIT 1
#endif
#ifndef LEASE
#define LEASE 1			/* lease time */
#endif
#ifndef PAUSE
#define PAUSE 1			/* pause bound */
#endif
#ifndef SETTLE
#define SETTLE 1
#endif
#ifndef RESOLVE
#define RESOLVE 3		/* resolve_within */
#endif

/* What really holds; a configuration in which one differs from what is declared breaks a promise. */
#ifndef TRUE_WINDOW
#define TRUE_WINDOW WINDOW
#endif
#ifndef TRUE_SETTLE
#define TRUE_SETTLE SETTLE
#endif
#ifndef TRUE_PAUSE
#define TRUE_PAUSE PAUSE
#endif
#ifndef LIES
#define LIES 0			/* who is asked says "no" although it happened */
#endif
#ifndef LOSES
#define LOSES 0			/* the ledger loses a committed lease */
#endif

/* The mutants: each drops or bends one rule. */
#define NONE			0
#define FENCE_UNCHECKED		1	/* an older fence ends the running attempt */
#define GENERATION_UNCHECKED	2	/* a report counts for the current generation, whichever it speaks of */
#define LEASE_END_NOT_DONE	3	/* a lease that ended unreported counts as "did not happen" */
#define DOUBT_CLEARED		4	/* doubt is forgotten when a retry fails honestly */
#define WINDOW_FROM_LAST	5	/* the window counts from the last doubtful attempt */
#define NO_UNSETTLED		6	/* "no" counts before settle has passed */
#define NO_WHEN_HEARD		7	/* "no" is dated when it is heard, not when it was asked */
#define ANSWER_UNFENCED		8	/* an answer about older attempts settles newer ones */
#define REDRIVE_UNFORCED	9	/* what is unknown is redriven without force */
#define REDRIVE_TWICE		10	/* a generation that has a successor gets another */
#define KEY_FORGOTTEN		11	/* the recovery key is not looked up */
#define LATE_SUCCESS_IGNORED	12	/* what a worker says late is never heard */
#define LOST_ANY_STATE		13	/* what the bus lost becomes ready again, whatever became of it */
#define GATE_WITHOUT_LEASE	14	/* an effect begins under a lease that is over */
#define GATE_WITHOUT_WINDOW	15	/* a repeat begins when the window no longer holds its last byte */
#define GATE_WITHOUT_DEADLINE	16	/* an effect begins after the deadline */
#define CANCEL_LEASED		17	/* what is leased is cancelled at once */
#define CANCEL_DOUBT		18	/* what is in doubt is cancelled */
#define EXPIRE_DOUBT		19	/* what expires in doubt is quarantined */
#define RETRY_UNPROMISED	20	/* doubt is retried though nobody dedupes, or no longer */
#define EFFECT_FIRST		21	/* the effect begins before the lease is committed */
#define STALE_EMISSION_LEASES	22	/* the emission of a reference is not compared */
#define LEASED_TWICE		23	/* what is leased can be leased again */
#define NO_PAUSE_BOUND		24	/* the last possible byte is taken to be the end of the lease */
#define BEGUN_HANDED_BACK	25	/* what has begun is handed back */
#define LEASES_NEVER_END	26	/* nobody ends the leases of dead workers */
#define NEVER_EXPIRED		27	/* nobody looks at deadlines */
#define NEVER_CLOSED		28	/* what is unknown is asked about for ever */
#define YES_IS_NO_END		29	/* a "yes" is noted but ends nothing */
#define QUARANTINE_DOUBT	30	/* the last attempt quarantines, doubt or not */
#define STALE_HAND_BACK_UNCOUNTS 31	/* an attempt that was over is taken back */
#define NO_LEAVES_UNKNOWN	32	/* "no" settles the doubt, and the generation stays unknown */
#define KEY_PER_GENERATION	33	/* a recovery key is a new one for each generation */
#define WINDOW_WITHOUT_SETTLE	34	/* what a receiver may do after the last byte is not kept within the window */
#ifndef MUTANT
#define MUTANT NONE
#endif
#define IS(m) (MUTANT == m)

/* ---- Where a generation can stand, and what can happen to it ------------------------------------------------- */

#define DUE		0	/* scheduled: due later */
#define RETRY		1	/* scheduled: a retry */
#define HELD		2	/* scheduled: held */
#define READY		3
#define LEASED		4
#define DOUBT		5	/* what is added to the stands above where the generation is in doubt */
#define DELIVERED	10
#define QUARANTINED	11
#define CANCELLED	12
#define UNKNOWN		13
#define CLOSED		14	/* unknown, and asked no more */
#define SUPERSEDED	15	/* has a successor */

#define E_DUE		0
#define E_LOST		1
#define E_LEASE		2
#define E_HOLD		3
#define E_HANDED_BACK	4
#define E_DONE		5
#define E_NOT_DONE	6
#define E_MAY_BE_DONE	7
#define E_LEASE_ENDED	8
#define E_ANSWER_YES	9
#define E_ANSWER_NO	10
#define E_EXPIRE	11
#define E_CLOSE		12
#define E_CANCEL	13
#define E_REDRIVEN	14

/*
 * The table. A line is an event and where the generation stands; behind the colon is where it may stand afterwards.
 * What is not listed is refused. "?" marks a generation in doubt; "~" marks what no run reaches, since it takes a broken
 * promise, or a question about a generation that has a successor. A test of this folder holds the table to
 * internal/machine, and `check` holds the model to the table, both ways.
 *
 * TABLE
 * due due: ready quarantined
 * due retry: ready quarantined
 * due held: ready quarantined
 * due retry?: ready? unknown
 * due held?: ready? unknown
 * lost ready: ready quarantined
 * lost ready?: ready? unknown
 * lease retry: leased quarantined
 * lease ready: leased quarantined
 * lease retry?: leased? unknown
 * lease ready?: leased? unknown
 * hold due: held
 * hold retry: held
 * hold held: held
 * hold ready: held
 * hold retry?: held?
 * hold held?: held?
 * hold ready?: held?
 * handed_back leased: ready quarantined cancelled
 * handed_back leased?: ready? unknown
 * done retry: delivered~
 * done held: delivered~
 * done ready: delivered~
 * done leased: delivered
 * done retry?: delivered
 * done held?: delivered
 * done ready?: delivered
 * done leased?: delivered
 * done unknown: delivered
 * done closed: delivered
 * done delivered: delivered
 * done quarantined: delivered~
 * done cancelled: cancelled~
 * done superseded: superseded
 * not_done retry: retry
 * not_done held: held
 * not_done ready: ready
 * not_done leased: retry leased quarantined cancelled
 * not_done retry?: retry?
 * not_done held?: held?
 * not_done ready?: ready?
 * not_done leased?: retry? leased? unknown
 * not_done unknown: unknown
 * not_done closed: closed
 * not_done delivered: delivered
 * not_done quarantined: quarantined
 * not_done cancelled: cancelled
 * not_done superseded: superseded
 * may_be_done retry: retry
 * may_be_done held: held
 * may_be_done ready: ready
 * may_be_done leased: leased retry? unknown
 * may_be_done retry?: retry?
 * may_be_done held?: held?
 * may_be_done ready?: ready?
 * may_be_done leased?: retry? leased? unknown
 * may_be_done unknown: unknown
 * may_be_done closed: closed
 * may_be_done delivered: delivered
 * may_be_done quarantined: quarantined
 * may_be_done cancelled: cancelled
 * may_be_done superseded: superseded
 * lease_ended leased: retry? unknown
 * lease_ended leased?: retry? unknown
 * answer_yes retry: delivered~
 * answer_yes held: delivered~
 * answer_yes ready: delivered~
 * answer_yes leased: delivered
 * answer_yes retry?: delivered
 * answer_yes held?: delivered
 * answer_yes ready?: delivered
 * answer_yes leased?: delivered
 * answer_yes unknown: delivered
 * answer_yes closed: delivered
 * answer_yes delivered: delivered
 * answer_yes quarantined: delivered~
 * answer_yes cancelled: cancelled~
 * answer_yes superseded: superseded~
 * answer_no unknown: retry quarantined cancelled
 * answer_no closed: quarantined cancelled
 * expire due: quarantined
 * expire retry: quarantined
 * expire held: quarantined
 * expire ready: quarantined
 * expire retry?: unknown
 * expire held?: unknown
 * expire ready?: unknown
 * close unknown: closed
 * cancel due: cancelled
 * cancel retry: cancelled
 * cancel held: cancelled
 * cancel ready: cancelled
 * cancel leased: leased
 * cancel retry?: unknown
 * cancel held?: unknown
 * cancel ready?: unknown
 * cancel leased?: leased?
 * cancel unknown: unknown
 * cancel closed: closed
 * cancel quarantined: cancelled
 * redriven unknown: superseded
 * redriven closed: superseded
 * redriven quarantined: superseded
 * END
 */

c_decl {
	static unsigned char told[16][16][16];
	static const char *events[] = {
		"due", "lost", "lease", "hold", "handed_back", "done", "not_done", "may_be_done", "lease_ended",
		"answer_yes", "answer_no", "expire", "close", "cancel", "redriven"
	};
	static const char *stands[] = {
		"due", "retry", "held", "ready", "leased", "due?", "retry?", "held?", "ready?", "leased?",
		"delivered", "quarantined", "cancelled", "unknown", "closed", "superseded"
	};
	/* tell names each kind of step of the table once. */
	static void tell(int event, int from, int to)
	{
		if (told[event][from][to]) return;
		told[event][from][to] = 1;
		printf("cell %s %s %s\n", events[event], stands[from], stands[to]);
	}
	/* broken names the property that does not hold. */
	static void broken(const char *property, const char *demand)
	{
		printf("broken %s: %s\n", property, demand);
	}
}

/*
 * must stops the search where a property does not hold, and names it. With -DEFFECTS only effects are looked at: then
 * what a mutant comes to is seen at the receiver, and not already in the ledger.
 */
#define must_happen_once(property, demand) if :: (demand) :: else -> c_code { broken(#property, #demand); }; assert(false) fi
#ifdef EFFECTS
#define must(property, demand) skip
#else
#define must(property, demand) must_happen_once(property, demand)
#endif

/* ---- The ledger: the row of the current generation ----------------------------------------------------------- */

byte gen = 1;		/* the current generation */
byte st;		/* where it stands: DUE..LEASED, DELIVERED..UNKNOWN */
byte attempt;		/* leases that were not handed back */
byte age;		/* of the running lease */
bit doubt;		/* some attempt may have happened, and nobody has settled it */
byte since;		/* how long ago the first doubtful attempt was leased, as far as it matters */
byte quiet;		/* how long until settle has passed since the last possible byte of every doubtful attempt */
byte left;		/* until the deadline */
bit perm;		/* the newest failure is permanent */
bit cancel;		/* a cancellation is requested */
bit closed;		/* asked no more */
byte made[3];		/* the generation that each recovery key made; keys are 1 and 2 */
bit forced;		/* a person has forced a redrive of what was unknown */

/* The reference of the newest emission: nowhere, in the outbox, or on the bus (any number of copies). */
#define NOWHERE	0
#define OUTBOX	1
#define BUS	2
byte ref;

/* ---- The workers, what they sent, and the receiver ----------------------------------------------------------- */

/*
 * Slots 0 and 1 are what the two workers have in hand; slot 2 is a request whose worker is gone or has given it up.
 * A request goes from the gate, the last check before the first byte, to its bytes, to the receiver.
 */
#define FREE	0
#define GATED	1	/* may write its bytes while `rest` lasts, its last instant included */
#define WRITTEN	2	/* the receiver may act while `rest` lasts, its last instant excluded */
#define ACTED	3	/* the receiver has acted, and its worker could know */
#define NOTHING	4	/* nothing was written, or the receiver refused, and its worker could know */
#define STRAY	2	/* the slot */
byte stage[3];
byte rest[3];
byte about[3];		/* the generation of the attempt */
bit hold[2];		/* the worker has an attempt in hand */
bit newest[2];		/* its fence is the newest of the job */
byte begin[2];		/* how long it may still begin */

byte effects[GENS + 1];	/* how often the receiver acted under the effect key of each generation */
byte memory[GENS + 1];	/* how long it dedupes still */

/* An answer of a lookup or a person, on its way. */
#define NOBODY	0
#define YES	1
#define NO	2
byte answer;
bit settled;		/* it was asked when settle had passed */
bit fenced;		/* it carries the newest fence of the current generation */

/* ---- What decisions are made from ---------------------------------------------------------------------------- */

#define EXPIRED		(DEADLINE > 0 && left == 0)
#define LATEST		(WINDOW - (IS(WINDOW_WITHOUT_SETTLE) -> 0 : SETTLE) - PAUSE - LIMIT)	/* when a repeat may begin at the latest, by `since` */
#define REPEATABLE	((WINDOW > 0 && since <= LATEST) || IS(RETRY_UNPROMISED))
#define OVER		(EXPIRED || (doubt && !REPEATABLE))
#define BOUND		(EXPIRED || perm || attempt >= ATTEMPTS)
#define MINE(i)		((about[i] == gen || IS(GENERATION_UNCHECKED)) && (newest[i] || IS(FENCE_UNCHECKED)) && st == LEASED)

/* How far the counters go: further makes no difference. */
#define OLDEST		(LIMIT + LEASE + PAUSE + SETTLE)
#ifdef LIVE
#define MEMORABLE	(RESOLVE > LATEST + 1 -> RESOLVE : LATEST + 1)
#else
#define MEMORABLE	(WINDOW > 0 -> LATEST + 1 : 0)
#endif
#define LOWER(a, b)	((a) < (b) -> (a) : (b))
#define HIGHER(a, b)	((a) > (b) -> (a) : (b))

/* ---- What is demanded ---------------------------------------------------------------------------------------- */

#define STAND	(st <= LEASED && doubt -> st + DOUBT : (st == UNKNOWN && closed -> CLOSED : st))
#define ROW	(st + 16 * (attempt + 8 * (doubt + 2 * (since + 8 * (quiet + 8 * (cancel + 2 * (closed + 2 * (perm + 2 * (ref + 4 * gen)))))))))

#define MAY_ACT(s, g)	(about[s] == g && (stage[s] == GATED || (stage[s] == WRITTEN && rest[s] > 0)))
#define MAY_BEGIN(i, g)	(about[i] == g && hold[i] && stage[i] == FREE && begin[i] > 0)
/* The effect of a generation has happened, or may happen still. */
#define AT_LARGE(g)	(MAY_ACT(0, g) || MAY_ACT(1, g) || MAY_ACT(2, g) || MAY_BEGIN(0, g) || MAY_BEGIN(1, g))
#define CONCERNS(g)	(effects[g] > 0 || AT_LARGE(g))

/* invariants hold after every step. */
inline invariants() {
	must(G8_unknown_is_doubt, st != UNKNOWN || doubt);
	must(G8_doubt_ends_only_delivered_or_unknown, !doubt || st <= LEASED || st == UNKNOWN);
	must(G8_nothing_that_may_have_happened_counts_as_not_sent,
		doubt || st == LEASED || st == DELIVERED || !CONCERNS(gen));
	must(G8_what_was_redriven_unforced_did_not_happen, forced || gen < 2 || !CONCERNS(gen - 1));
	must(G8_what_was_redriven_unforced_did_not_happen, forced || gen < 3 || !CONCERNS(gen - 2));
	must(G5_without_doubt_only_the_newest_attempt_can_happen, doubt || st != LEASED ||
		(!(newest[0] == 0 && (MAY_ACT(0, gen) || MAY_BEGIN(0, gen))) && !(newest[1] == 0 && (MAY_ACT(1, gen) || MAY_BEGIN(1, gen)))));
	must(G1_delivered_has_happened, st != DELIVERED || effects[gen] > 0)
}

/* Of the decision in the making; forgotten with its end, so that it is no part of what tells two states apart. */
byte ev;
byte from;
byte wasdoubt;
byte reply;
byte did;
byte mine;
byte older;
byte owned;
int row;

inline before(e) { ev = e; from = STAND; wasdoubt = doubt; row = ROW; did = 1 }

inline after() {
	reply = STAND;
	if
	:: did -> c_code { tell(now.ev, now.from, now.reply); }
	:: else -> must(G5_what_is_refused_changes_nothing, row == ROW)
	fi;
	must(G8_doubt_is_sticky, doubt || !wasdoubt || st == DELIVERED || ev == E_ANSWER_NO || ev == E_REDRIVEN);
	must(G6_what_ended_goes_on_only_by_evidence_or_a_person,
		from < DELIVERED || from == reply || ev == E_DONE || ev == E_ANSWER_YES || ev == E_ANSWER_NO || ev == E_CLOSE || ev == E_CANCEL || ev == E_REDRIVEN);
	ev = 0; from = 0; wasdoubt = 0; reply = 0; did = 0; mine = 0; older = 0; owned = 0; row = 0;
	invariants()
}

/* of_older: the generation has a successor, and what is said of it is evidence. */
inline of_older() { did = 0; c_code { tell(now.ev, 15, 15); } }

/* ---- Where a decision leads ---------------------------------------------------------------------------------- */

inline to_ready() { st = READY; age = 0; ref = OUTBOX }
inline to_retry() { st = RETRY; age = 0; ref = OUTBOX; perm = 0 }
inline to_unknown() { st = UNKNOWN; age = 0; ref = NOWHERE }

/* to_end forgets what no decision about an ended generation is made from. */
inline to_end(s) {
	st = s; age = 0; ref = NOWHERE; attempt = 0; perm = 0; cancel = 0; closed = 0;
	doubt = 0; since = 0; quiet = 0
}

inline expire_row() {
	if
	:: doubt && !IS(EXPIRE_DOUBT) -> to_unknown()
	:: else -> to_end(QUARANTINED)
	fi
}

/* end decides what follows an attempt, or a "no". again is where another attempt begins. */
inline end(again) {
	if
	:: doubt && (BOUND && IS(QUARANTINE_DOUBT)) -> st = QUARANTINED; age = 0; ref = NOWHERE
	:: doubt && (cancel || BOUND || !REPEATABLE) && !(BOUND && IS(QUARANTINE_DOUBT)) -> to_unknown()
	:: !doubt && cancel -> to_end(CANCELLED)
	:: !doubt && !cancel && (BOUND || closed) -> to_end(QUARANTINED)
	:: else ->
		if
		:: again == READY -> to_ready()
		:: else -> to_retry()
		fi
	fi
}

/* doubtful puts the generation in doubt; the last possible byte never moves back. */
inline doubtful() {
	perm = 0;
	if
	:: !doubt || IS(WINDOW_FROM_LAST) -> doubt = 1; since = LOWER(age, MEMORABLE)
	:: else
	fi;
	if
	:: age > LIMIT + LEASE -> quiet = HIGHER(quiet, OLDEST - age)
	:: else -> quiet = HIGHER(quiet, (IS(NO_PAUSE_BOUND) -> 0 : PAUSE) + SETTLE)
	fi
}

/* ---- The events, as in internal/machine ---------------------------------------------------------------------- */

inline due() {
	before(E_DUE);
	if
	:: OVER -> expire_row()
	:: else -> to_ready()
	fi;
	after()
}

inline lost() {
	before(E_LOST);
	if
	:: st == READY && OVER -> expire_row()
	:: st == READY && !OVER -> ref = OUTBOX
	:: st != READY && IS(LOST_ANY_STATE) -> to_ready()
	:: else -> did = 0
	fi;
	after()
}

/* lease, by worker i; match says that the reference is of the row's emission. */
inline lease(i, match) {
	before(E_LEASE);
	if
	:: (match || IS(STALE_EMISSION_LEASES)) && (st == RETRY || st == READY || (st == LEASED && IS(LEASED_TWICE))) ->
		if
		:: OVER -> expire_row()
		:: else ->
			st = LEASED; attempt++; age = 0;
			ref = (IS(LEASED_TWICE) -> ref : NOWHERE);
			hold[i] = 1; about[i] = gen; newest[i] = 1; newest[1 - i] = 0; fenced = 0;
			begin[i] = LEASE + 1;
			if
			:: doubt && !IS(GATE_WITHOUT_WINDOW) && !IS(RETRY_UNPROMISED) -> begin[i] = LOWER(begin[i], LATEST - since + 1)
			:: else
			fi;
			if
			:: DEADLINE > 0 && !IS(GATE_WITHOUT_DEADLINE) -> begin[i] = LOWER(begin[i], left)
			:: else
			fi
		fi
	:: else -> did = 0
	fi;
	must(G6_stale_references_do_nothing, match || row == ROW);
	after()
}

inline held() {
	before(E_HOLD);
	st = HELD; ref = NOWHERE;
	after()
}

/* Worker i speaks of its attempt: is that the running one, or of a generation that has a successor? */
inline speaks(i) { mine = MINE(i); older = (about[i] != gen && !IS(GENERATION_UNCHECKED)); owned = (about[i] == gen && newest[i]) }

inline handed_back(i) {
	speaks(i);
	let_go(i);
	before(E_HANDED_BACK);
	if
	:: mine -> attempt--; end(READY)
	:: else ->
		did = 0;
		if
		:: IS(STALE_HAND_BACK_UNCOUNTS) && attempt > 0 -> attempt--
		:: else
		fi
	fi;
	must(G5_what_is_refused_changes_nothing, did || row == ROW);
	must(G5_only_the_newest_fence_ends_an_attempt, owned || row == ROW);
	after()
}

/*
 * Of what a worker says, what is not of the running lease is evidence. It changes nothing, unless it is a success:
 * that is the best news there is.
 */
inline done(i) {
	speaks(i);
	let_go(i);
	before(E_DONE);
	if
	:: older -> of_older()
	:: !older && (st == CANCELLED || st == DELIVERED || st == DUE || (IS(LATE_SUCCESS_IGNORED) && !mine)) -> skip
	:: else -> to_end(DELIVERED)
	fi;
	must(G5_a_late_success_wins, older || st == DELIVERED || st == CANCELLED || st == DUE);
	after()
}

inline not_done(i, permanent) {
	speaks(i);
	let_go(i);
	before(E_NOT_DONE);
	if
	:: older -> of_older()
	:: mine ->
		if
		:: IS(DOUBT_CLEARED) -> doubt = 0; since = 0; quiet = 0
		:: else
		fi;
		perm = permanent;
		end(RETRY)
	:: else
	fi;
	must(G5_only_the_newest_fence_ends_an_attempt, owned || row == ROW);
	after()
}

inline may_be_done(i) {
	speaks(i);
	before(E_MAY_BE_DONE);
	if
	:: older -> of_older()
	:: mine -> doubtful(); end(RETRY)
	:: else
	fi;
	must(G5_only_the_newest_fence_ends_an_attempt, owned || row == ROW);
	after()
}

inline lease_ended() {
	before(E_LEASE_ENDED);
	cut(0); cut(1); cut(STRAY);
	ends(0); ends(1);
	if
	:: IS(LEASE_END_NOT_DONE) -> skip
	:: else -> doubtful()
	fi;
	end(RETRY);
	after()
}

inline answer_yes() {
	before(E_ANSWER_YES);
	if
	:: !fenced -> did = 0
	:: fenced && (st == DELIVERED || st == CANCELLED || IS(YES_IS_NO_END)) -> skip
	:: else -> to_end(DELIVERED)
	fi;
	must(G5_a_yes_wins, !fenced || st == DELIVERED || st == CANCELLED);
	after()
}

inline answer_no() {
	before(E_ANSWER_NO);
	if
	:: st == UNKNOWN && (fenced || IS(ANSWER_UNFENCED)) && (settled || IS(NO_UNSETTLED) || (quiet == 0 && IS(NO_WHEN_HEARD))) ->
		doubt = 0; since = 0; quiet = 0;
		if
		:: IS(NO_LEAVES_UNKNOWN) -> skip
		:: else -> end(RETRY); closed = 0
		fi
	:: else -> did = 0
	fi;
	after()
}

inline expire() {
	before(E_EXPIRE);
	expire_row();
	after()
}

inline close() {
	before(E_CLOSE);
	closed = 1;
	after()
}

inline cancelled() {
	before(E_CANCEL);
	if
	:: st <= READY && doubt && !IS(CANCEL_DOUBT) -> cancel = 1; to_unknown()
	:: (st == LEASED && !IS(CANCEL_LEASED)) || st == UNKNOWN -> cancel = 1
	:: else -> to_end(CANCELLED)
	fi;
	after()
}

/*
 * redriven answers a request with recovery key k for generation g. later says that the successor begins later, and
 * renewed that the deadline is corrected.
 */
inline redriven(k, g, force, later, renewed) {
	before(E_REDRIVEN);
	did = 0;
	reply = 0;
	if
	:: made[k] != 0 && !IS(KEY_FORGOTTEN) && !(IS(KEY_PER_GENERATION) && made[k] != g + 1) ->
		if
		:: made[k] == g + 1 -> reply = made[k]
		:: else
		fi
	:: else ->
		if
		:: (g == gen || IS(REDRIVE_TWICE)) && gen < GENS && (renewed || !EXPIRED) &&
			(st == QUARANTINED || (st == UNKNOWN && (force || IS(REDRIVE_UNFORCED)))) ->
			must(G9_one_successor_a_generation, g == gen);
			must(G9_one_successor_a_recovery_key, made[k] == 0);
			forced = forced || (st == UNKNOWN && force);
			c_code { tell(14, now.from, 15); };
			to_end(DUE);
			gen++;
			fenced = 0;
			made[k] = gen;
			reply = gen;
			if
			:: renewed -> left = DEADLINE
			:: else
			fi;
			if
			:: later -> skip
			:: else -> to_ready()
			fi;
			row = ROW
		:: else
		fi
	fi;
	must(G9_one_key_one_answer, made[k] == 0 || made[k] != g + 1 || reply == made[k]);
	after()
}

/* ---- A worker's hands ---------------------------------------------------------------------------------------- */

inline free(s) { stage[s] = FREE; rest[s] = 0; about[s] = 0 }

/* let_go leaves an attempt that has ended; what may still happen goes on without its worker. */
#define CAN_LET_GO(i)	(stage[STRAY] == FREE || !MAY_ACT(i, about[i]))
inline let_go(i) {
	if
	:: MAY_ACT(i, about[i]) -> stage[STRAY] = stage[i]; rest[STRAY] = rest[i]; about[STRAY] = about[i]
	:: else
	fi;
	free(i); hold[i] = 0; newest[i] = 0; begin[i] = 0
}

/* cut: what was begun writes its last byte within the pause bound, now that the lease is over. */
inline cut(s) {
	if
	:: stage[s] == GATED && about[s] == gen -> rest[s] = LOWER(rest[s], TRUE_PAUSE)
	:: else
	fi
}

/* ends: a worker begins nothing under a lease that is over; it knows by its own clock, which is earlier. */
inline ends(i) {
	if
	:: newest[i] && about[i] == gen && !IS(GATE_WITHOUT_LEASE) -> begin[i] = 0
	:: else
	fi
}

/* acts is the receiver's. */
inline acts(s) {
	if
	:: memory[about[s]] == 0 -> effects[about[s]]++; memory[about[s]] = TRUE_WINDOW
	:: else
	fi;
	must_happen_once(G1_one_effect_a_key, effects[about[s]] <= 1);
#if GENS == 3
	must_happen_once(G1_one_effect_a_job, forced || effects[1] + effects[2] + effects[3] <= 1);
#elif GENS == 2
	must_happen_once(G1_one_effect_a_job, forced || effects[1] + effects[2] <= 1);
#endif
	if
	:: s == STRAY -> free(s)
	:: else -> stage[s] = ACTED; rest[s] = 0
	fi;
	invariants()
}

/* ---- The processes ------------------------------------------------------------------------------------------- */

/* What nobody may rely on rests for as long as it likes; only clock, promotion and sweeps must go on. */
#ifdef LIVE
#define IDLE	:: gen > 0
#else
#define IDLE
#endif

inline pass(s) {
	if
	:: stage[s] == GATED && rest[s] == 0 ->
		if
		:: s == STRAY -> free(s)
		:: else -> stage[s] = NOTHING
		fi
	:: stage[s] == WRITTEN && rest[s] == 1 && s == STRAY -> free(s)
	:: else -> rest[s] = HIGHER(rest[s], 1) - 1
	fi
}

/* Time passes for all at once. */
active proctype Clock() {
	do
	:: d_step {
		true ->
		printf("time passes\n");
		if
		:: st == LEASED && age < OLDEST -> age++
		:: else
		fi;
		if
		:: doubt && since < MEMORABLE -> since++
		:: else
		fi;
		quiet = HIGHER(quiet, 1) - 1;
		left = HIGHER(left, 1) - 1;
		begin[0] = HIGHER(begin[0], 1) - 1;
		begin[1] = HIGHER(begin[1], 1) - 1;
		pass(0); pass(1); pass(STRAY);
		memory[1] = HIGHER(memory[1], 1) - 1;
#if GENS > 1
		memory[2] = HIGHER(memory[2], 1) - 1;
#endif
#if GENS > 2
		memory[3] = HIGHER(memory[3], 1) - 1;
#endif
	}
	od
}

/* Promotion of what is due: internal/schedule. */
active proctype Promotion() {
	do
	:: d_step { st <= HELD -> printf("promotion: due\n"); due() }
	od
}

/* Ends of leases: internal/sweep, dead and ended workers, overruns. */
active proctype LeaseSweep() {
	do
	:: d_step { st == LEASED && age >= LEASE && !IS(LEASES_NEVER_END) -> printf("sweep: the lease ended\n"); lease_ended() }
	od
}

/* Expiry: internal/sweep. */
active proctype Expiry() {
	do
	:: d_step { st <= READY && OVER && !IS(NEVER_EXPIRED) -> printf("sweep: expired\n"); expire() }
	od
}

/* Closing: internal/sweep. A person who gives up closes too, at any time. */
active proctype Closing() {
	do
#ifdef LIVE
	:: d_step { st == UNKNOWN && !closed && since >= RESOLVE && !IS(NEVER_CLOSED) -> printf("sweep: closed\n"); close() }
#else
	:: d_step { st == UNKNOWN && !closed -> printf("sweep or person: closed\n"); close() }
#endif
	od
}

/* The outbox, the bus and the judge: internal/dispatch, internal/bus, internal/sweep. */
active proctype Bus() {
	do
	:: d_step { ref == OUTBOX -> printf("dispatcher: relayed\n"); ref = BUS }
	:: d_step { ref == BUS -> printf("bus: lost\n"); ref = NOWHERE }
	:: d_step { (st == READY && ref != OUTBOX) || (IS(LOST_ANY_STATE) && st > READY) -> printf("judge: lost\n"); lost() }
	IDLE
	od
}

/* A worker: internal/execute. Its pid is not its number, so that is given. */
proctype Worker(bit i) {
	do
	/* A reference of the newest emission comes, and stays on the bus: a copy. Or an old one comes, at any time. */
	:: d_step { !hold[i] && stage[i] == FREE && ref == BUS -> printf("worker %d: leases\n", i); lease(i, 1) }
	:: d_step { !hold[i] && stage[i] == FREE -> printf("worker %d: has a stale reference\n", i); lease(i, 0) }
	/* The gate: the last check before the first byte. */
	:: d_step { hold[i] && stage[i] == FREE && (begin[i] > 0 || (IS(GATE_WITHOUT_LEASE) && about[i] == gen)) ->
		printf("worker %d: begins\n", i);
		must(G4_intent_before_effect, hold[i]);
		must(G7_nothing_begins_after_the_deadline, DEADLINE == 0 || about[i] != gen || left > 0);
		stage[i] = GATED; rest[i] = LIMIT + TRUE_PAUSE; begin[i] = 0 }
	:: d_step { IS(EFFECT_FIRST) && !hold[i] && stage[i] == FREE && ref == BUS -> printf("worker %d: begins before its lease\n", i);
		stage[i] = GATED; rest[i] = LIMIT + TRUE_PAUSE; about[i] = gen;
		must(G4_intent_before_effect, hold[i]) }
	/* Its bytes. */
	:: d_step { stage[i] == GATED -> printf("worker %d: writes\n", i); stage[i] = WRITTEN; rest[i] = TRUE_SETTLE }
	/* What it says of its attempt. */
	:: d_step { hold[i] && (stage[i] == FREE || (IS(BEGUN_HANDED_BACK) && CAN_LET_GO(i))) -> printf("worker %d: hands back\n", i); handed_back(i) }
	:: d_step { stage[i] == ACTED -> printf("worker %d: done\n", i); done(i) }
	:: d_step { hold[i] && (stage[i] == FREE || stage[i] == NOTHING) -> printf("worker %d: not done, transient\n", i); not_done(i, 0) }
	:: d_step { hold[i] && (stage[i] == FREE || stage[i] == NOTHING) -> printf("worker %d: not done, permanent\n", i); not_done(i, 1) }
	:: d_step { stage[i] != FREE && CAN_LET_GO(i) -> printf("worker %d: may be done\n", i); may_be_done(i); cut(i); let_go(i) }
	/* An attempt that has been given up may still come to know that it happened. */
	:: d_step { stage[i] == GATED || stage[i] == WRITTEN -> printf("worker %d: may be done, and goes on\n", i); may_be_done(i); cut(i) }
	/* It crashes; a new process takes its place. */
	:: d_step { hold[i] && CAN_LET_GO(i) -> printf("worker %d: crashes\n", i); let_go(i) }
	IDLE
	od
}

/* The receiver: acts, or refuses, which its worker hears unless it is gone. */
active proctype Receiver() {
	do
	:: d_step { MAY_ACT(0, about[0]) && stage[0] == WRITTEN -> printf("receiver: acts for worker 0\n"); acts(0) }
	:: d_step { MAY_ACT(1, about[1]) && stage[1] == WRITTEN -> printf("receiver: acts for worker 1\n"); acts(1) }
	:: d_step { stage[STRAY] == GATED -> printf("a stray request is written\n"); stage[STRAY] = WRITTEN; rest[STRAY] = TRUE_SETTLE }
	:: d_step { stage[STRAY] == WRITTEN -> printf("receiver: acts for a stray request\n"); acts(STRAY) }
	:: d_step { MAY_ACT(0, about[0]) && stage[0] == WRITTEN -> printf("receiver: refuses worker 0\n"); stage[0] = NOTHING; rest[0] = 0 }
	:: d_step { MAY_ACT(1, about[1]) && stage[1] == WRITTEN -> printf("receiver: refuses worker 1\n"); stage[1] = NOTHING; rest[1] = 0 }
	IDLE
	od
}

/* A lookup, which asks about what is unknown; where there is none, a person, who may look whenever there was an attempt. */
#define ASKABLE	(LOOKUP -> st == UNKNOWN && !closed : st == UNKNOWN || effects[gen] > 0 || (doubt && st != LEASED))
active proctype Asker() {
	do
	:: d_step { answer == NOBODY && ASKABLE && st != CANCELLED ->
		printf("asker: asks\n");
		if
		:: effects[gen] > 0 && !LIES -> answer = YES
		:: else -> answer = NO
		fi;
		settled = (answer == NO && doubt && quiet == 0 && st != LEASED);
		fenced = 1 }
	:: d_step { answer == YES -> printf("asker: yes\n"); answer_yes(); answer = NOBODY; settled = 0; fenced = 0 }
	:: d_step { answer == NO -> printf("asker: no\n"); answer_no(); answer = NOBODY; settled = 0; fenced = 0 }
	IDLE
	od
}

/* A producer and a person: internal/redrive, the tools of section 12. */
active proctype Operator() {
	do
	:: d_step { !CALM && st != DELIVERED && st != CANCELLED -> printf("operator: cancels\n"); cancelled() }
	:: d_step { !CALM && st <= READY -> printf("worker or person: holds\n"); held() }
#if GENS > 1
	:: d_step { FORCE == 0 -> printf("operator: redrives generation 1 with key 1\n"); redriven(1, 1, 0, 0, 1) }
	:: d_step { FORCE == 0 -> printf("operator: redrives generation 1 with key 2, later\n"); redriven(2, 1, 0, 1, 0) }
	:: d_step { FORCE == 1 -> printf("operator: forces generation 1 with key 1\n"); redriven(1, 1, 1, 0, 1) }
	:: d_step { FORCE == 1 -> printf("operator: forces generation 1 with key 2, later\n"); redriven(2, 1, 1, 1, 0) }
#endif
#if GENS > 2
	:: d_step { gen > 1 -> printf("operator: redrives generation 2 with key 1\n"); redriven(1, 2, FORCE, 0, 1) }
	:: d_step { gen > 1 -> printf("operator: redrives generation 2 with key 2\n"); redriven(2, 2, FORCE, 0, 1) }
#endif
	IDLE
	od
}

/* A ledger that loses what it committed: a failover that is none of the allowed ones. */
#if LOSES
active proctype Failover() {
	do
	:: d_step { st == LEASED && !doubt -> printf("failover: the lease is lost\n"); attempt--; to_ready() }
	od
}
#endif

init {
	atomic {
		left = DEADLINE;
		if
		:: true -> st = READY; ref = OUTBOX
		:: true -> st = DUE
		fi;
		run Worker(0);
		run Worker(1)
	}
}

#ifdef LIVE
#define ENDED	(st == DELIVERED || st == QUARANTINED || st == CANCELLED || (st == UNKNOWN && closed))
/* G2: whatever workers, bus, receiver and people do or leave undone, a job ends, or a person sees that it has not. */
ltl G2_ends { [] <> ENDED }
#endif
