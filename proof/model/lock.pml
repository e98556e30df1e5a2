/*
The lock of Leasehold on one page, for the model checker Spin: run.sh tries every order of its steps.

Two clients, a store, and between them a network that loses requests and responses, delivers them twice, in any
order and as late as it likes. A client sends a request again for as long as it has no response, with the same id.
It may be frozen at any step: a process that takes no step is that. What a client writes goes to a resource that
compares tokens, by the same network.

What is checked, in every state that can be reached:
  HOLDERS   at most one client thinks that it has the lock, by its own count of the time;
  TOKENS    each lease has a token greater than all before it;
  REPLAY    a request gets one lease, and each response to it says the same one;
  FENCE     once a write with a token was accepted, none with a lower one is;
  LOOK      after a request was refused, the lock is closed for one ttl at most: also if the store's clock was ahead
            when it was leased, which it may be, and is set back at any time.
Each -D of a fault below takes away one line of the rules, and one of these must fail then.

What it leaves out: more than one key, renewals, lines of waiters and several holders, the store's own faults,
clocks that are set forward, or are off (DynamoDB), and that the store remembers the last few requests only: here it knows all. That the
programs do what this page says is for the other tests: they judge the histories of the real ones by the same rules.
*/

#define CLIENTS  2
/* acquires of the first client, with ids of their own; the second has one less */
#define REQUESTS 2
/* units of time */
#define TTL      2
/* by how much the store's clock is ahead */
#define AHEAD    3
/* the time stops there, and everything else goes on */
#define END      4

#define ID(c, n) ((c) * REQUESTS + (n))

mtype = { ACQUIRE, RELEASE, WRITE }
chan net  = [2] of { mtype, byte, byte, byte }  /* to the store and the resource: kind, client, id, token */
chan back = [1] of { byte, byte }               /* of the store: id, token. Only grants: a refusal changes nothing */

byte now = 0;                     /* the true time, which clients count by their own clocks */
byte ahead = AHEAD;               /* the store's clock, before it, until it is set back */

#define STORED (now + ahead)      /* the store's time */

/* The document of the lock. */
bool taken = false;
byte token = 0, owner, lease, expires;
bool known[CLIENTS * REQUESTS];   /* requests that were granted a lease */

byte highest = 0;                 /* of all tokens that were granted: the store's time, from which tokens start */
byte accepted = 0;                /* the fence of the resource */

byte c, id, t;                    /* of the step that the store takes */

byte until[CLIENTS];              /* what clients know: the lock is mine before this time */
byte got[CLIENTS * REQUESTS];     /* for the checks only: the token that a request was granted; 0 is none */

#define holds(c) (now < until[c])

#define LEASED (taken && STORED < expires)
#ifdef FORGETS_REQUESTS
#define NEW(id) true
#else
#define NEW(id) (!known[id])
#endif

inline grant() {
	token++;
	assert(token > highest);                     /* TOKENS */
	highest = token;
	assert(got[id] == 0);                        /* REPLAY */
	got[id] = token;
	taken = true; owner = c; lease = id; expires = STORED + TTL; known[id] = true
}

/* An end that is impossible by the clock counts from the look. */
inline look() {
	if
#ifndef BELIEVES_IMPOSSIBLE_ENDS
	:: expires > STORED + TTL ->
#ifdef IMPOSSIBLE_ENDS_HAVE_PASSED
		expires = STORED
#else
		expires = STORED + TTL
#endif
#endif
	:: else
	fi;
	assert(expires <= STORED + TTL)              /* LOOK */
}

/* The response, or it is lost. */
inline respond() {
	if
	:: nfull(back) && !back??[eval(id), eval(token)] -> back!!id, token
	:: true
	fi
}

/* A copy of the request stays behind, or none. */
inline copy(kind) {
	if
	:: net!!kind, c, id, t
	:: true
	fi;
	forget()
}

inline forget() { c = 0; id = 0; t = 0 }

/* The store takes one request at a time: each of its steps is one conditional write. */
proctype Store() {
end:	do
	:: atomic { net??ACQUIRE, c, id, t ->
		if
		:: !LEASED && NEW(id) -> grant(); respond()
		:: LEASED && lease == id -> respond()    /* a retry: it had got the lease before */
		:: LEASED && lease != id -> look()       /* refused */
		:: else
		fi;
		copy(ACQUIRE)
	   }
	:: atomic { net??RELEASE, c, id, t ->
		if
#ifdef RELEASES_BY_OWNER
		:: taken && owner == c -> taken = false
#else
		:: taken && token == t -> taken = false
#endif
		:: else
		fi;
		copy(RELEASE)
	   }
	:: atomic { !taken && token > 0 ->               /* the record of a lock that is free is removed */
#ifdef TOKENS_START_AGAIN
		token = 0
#else
		token = highest
#endif
	   }
	:: atomic { net??WRITE, c, id, t ->              /* the resource */
		if
#ifndef NO_FENCE
		:: t < accepted                          /* rejected */
#endif
		:: else -> assert(t >= accepted); accepted = t   /* FENCE */
		fi;
		forget()
	   }
	:: net??_, _, _, _                               /* a request is lost */
	:: back?_, _                                     /* a response is lost, or no one waits for it any more */
	od
}

proctype Client(byte me) {
	byte n = 0, sent, with;
	bool written;
	do
	:: n == REQUESTS - me -> break
	:: n < REQUESTS - me ->
		sent = now;
		do                                          /* asks until it has a response, or gives up */
		:: atomic { nfull(net) && !net??[ACQUIRE, eval(me), eval(ID(me, n)), 0] ->
			net!!ACQUIRE, me, ID(me, n), 0
		   }
		:: atomic { back??eval(ID(me, n)), with ->
#ifdef COUNTS_FROM_RESPONSE
			sent = now;
#endif
			assert(with == got[ID(me, n)]);      /* REPLAY */
			until[me] = sent + TTL;
			assert(!holds(me) || !holds(1 - me));  /* HOLDERS */
			break
		   }
		:: atomic { with = 0; break }
		od;
		do                                          /* works */
		:: atomic { holds(me) && !written && nfull(net) -> written = true; net!!WRITE, me, 0, with }
		:: atomic { holds(me) && nfull(net) ->        /* releases: it stops before it says so */
#ifndef RELEASES_THEN_STOPS
			until[me] = 0;
#endif
			net!!RELEASE, me, 0, with; break
		   }
		:: atomic { !holds(me) -> until[me] = 0; break }
		od;
		atomic { n++; sent = 0; with = 0; written = false }
	od
}

proctype Time() {
	do
	:: now < END -> now++
	:: atomic { ahead > 0 -> ahead = 0 }
	:: now == END -> break
	od
}

init { atomic { run Store(); run Client(0); run Client(1); run Time() } }
