// Code generated from contracts/openapi.yaml by scripts/generate.mjs. DO NOT EDIT.

export interface components {
    schemas: {
        /** The caller's name for this command, the same for every retry. */
        readonly RequestID: string;
        /**
         * Who holds the lease. In development mode it is required. With authentication the owner is the token's subject; a value
         *     here is a suffix of 1 to 64 letters, digits, ".", "_" and "-" that tells instances of one subject apart, giving
         *     "subject#suffix".
         */
        readonly OwnerID: string;
        /**
         * Format: int64
         * How long the lease lasts from now, in whole seconds.
         */
        readonly TTLSeconds: number;
        /**
         * Format: int64
         * Larger than every token that was granted before, also after the lock's record was removed: the first is the store's time in
         *     microseconds. It needs 64 bits, or a double's 53. Pass it on to what the lock protects.
         */
        readonly FencingToken: number;
        /** ISO 8601, UTC, milliseconds. */
        readonly Time: string;
        /** A time in RFC 3339, which is read in whole milliseconds. */
        readonly RequestTime: string;
        /**
         * The end of the request: after this time of the store it has no effect, however late it arrives, and waits no
         *     longer. In RFC 3339, within an hour from now. Afterwards the response is `TOO_LATE`, unless the request had its
         *     effect before. The same `request_id` may be sent with a later end. Left out, the request has no end.
         */
        readonly NotAfter: string;
        /**
         * Give up the request with this `request_id`: what it obtained ends, its place in line too, and no delivery of it
         *     obtains anything from now on. Send it with the body of the request when its caller does not want it any more.
         *     With `replace`, `not_after` is then the latest that a delivery of it had: so long its copies may come. Without it
         *     that is 40 seconds. The response is 204. Left out, false.
         */
        readonly GiveUp: boolean;
        /** Labels for people; keys of 1 to 64 bytes, values of up to 512. */
        readonly Metadata: {
            readonly [key: string]: string;
        };
        /**
         * A lease is ACTIVE while now < expires_at and it was not released.
         * 
         */
        readonly State: "ACTIVE" | "RELEASED" | "EXPIRED";
        readonly AcquireRequest: {
            readonly request_id: components["schemas"]["RequestID"];
            readonly owner_id?: components["schemas"]["OwnerID"];
            /** How long the lease lasts from now, in whole seconds. Required, but for the mode `rate`, which has none. */
            readonly ttl_seconds?: components["schemas"]["TTLSeconds"];
            readonly metadata?: components["schemas"]["Metadata"];
            readonly mode?: components["schemas"]["LockMode"];
            /**
             * Format: int64
             * Required with `permits`: how many may hold the lock at a time, 1 to 100. Required with `rate`: how many grants a window may have, 1 to 1000. Not with other modes.
             */
            readonly limit?: number;
            /**
             * Format: int64
             * Required with `rate`: the length of the window, in whole seconds. Not with other modes.
             */
            readonly window_seconds?: number;
            /**
             * Format: int64
             * How long the server waits for a lock that is held before it responds, in whole seconds. Left out, 0: it responds at once. Send the same
             *     request again to wait on: one that waits in line keeps its place for 10 seconds after the response. Let the timeout of your client be some seconds
             *     longer.
             */
            readonly wait_seconds?: number;
            /**
             * Wait in line: first come, first served. Left out, false; the modes `shared`, `permits` and `rate` always do. Without `wait_seconds` the
             *     request only tries, and gives up the place that it has.
             */
            readonly fair?: boolean;
            /**
             * Format: int64
             * How many may wait in line, this request included: if as many wait already, the response is `LOCK_QUEUE_FULL`. Left out, 100. It needs `fair`, or a mode
             *     with a line.
             */
            readonly max_waiting?: number;
            /**
             * Take the lock from its holder, if that one was acquired with `replace` as well; otherwise the response is `LOCK_HELD`. A request that may be a late
             *     copy takes the lock from no one, and is told so in `detail`: one whose `not_after` is not later than that of a request with `replace` which the lock
             *     does not remember any more, as four others came after it. Left out, false. With the mode `exclusive` only.
             */
            readonly replace?: boolean;
            /**
             * Format: int64
             * How long the lock stays closed if this lease expires or is ended by force, in whole seconds. Left out, 0. A release opens it at once. Not with the
             *     mode `rate`.
             */
            readonly lock_delay_seconds?: number;
            readonly not_after?: components["schemas"]["NotAfter"];
            readonly give_up?: components["schemas"]["GiveUp"];
        };
        readonly LockSetAcquireRequest: {
            readonly request_id: components["schemas"]["RequestID"];
            readonly owner_id?: components["schemas"]["OwnerID"];
            /** Which locks, each once. Their order has no meaning. */
            readonly lock_keys: readonly string[];
            readonly ttl_seconds: components["schemas"]["TTLSeconds"];
            readonly metadata?: components["schemas"]["Metadata"];
            readonly not_after?: components["schemas"]["NotAfter"];
            readonly give_up?: components["schemas"]["GiveUp"];
        };
        readonly LockSetRenewRequest: {
            readonly request_id: components["schemas"]["RequestID"];
            readonly owner_id?: components["schemas"]["OwnerID"];
            readonly leases: components["schemas"]["LockSetTokens"];
            readonly ttl_seconds: components["schemas"]["TTLSeconds"];
            /** When the leases expire as far as the caller knows. They are renewed only while that is so of all of them. */
            readonly expires_at?: components["schemas"]["Time"];
        };
        readonly LockSetReleaseRequest: {
            readonly request_id: components["schemas"]["RequestID"];
            readonly owner_id?: components["schemas"]["OwnerID"];
            readonly leases: components["schemas"]["LockSetTokens"];
        };
        /** Which leases; each lock once. */
        readonly LockSetTokens: readonly components["schemas"]["LockSetToken"][];
        readonly LockSetToken: {
            readonly lock_key: string;
            readonly fencing_token: components["schemas"]["FencingToken"];
        };
        /**
         * `exclusive` (if left out): one holder. `shared`: up to 100 holders, and none beside an exclusive one; a further one gets `LOCK_HELD`. `permits`: `limit` holders at a time.
         *     `rate`: `limit` grants in any window of `window_seconds`; they are not held, renewed or released. A lock that is held or waited for keeps its mode,
         *     `exclusive` and `shared` being one, and its limit: another is `LOCK_MODE_DIFFERS`.
         * 
         */
        readonly LockMode: "exclusive" | "shared" | "permits" | "rate";
        readonly RenewRequest: {
            readonly request_id: components["schemas"]["RequestID"];
            readonly owner_id?: components["schemas"]["OwnerID"];
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly ttl_seconds: components["schemas"]["TTLSeconds"];
            /** When the lease expires as far as the caller knows, as the lease showed it. The lease is renewed only while that is so. */
            readonly expires_at?: components["schemas"]["Time"];
        };
        readonly ReleaseRequest: {
            readonly request_id: components["schemas"]["RequestID"];
            readonly owner_id?: components["schemas"]["OwnerID"];
            readonly fencing_token: components["schemas"]["FencingToken"];
        };
        readonly ForceReleaseRequest: {
            readonly request_id: components["schemas"]["RequestID"];
            readonly owner_id?: components["schemas"]["OwnerID"];
            /** For the holder; shown until the lock is acquired again. */
            readonly reason: string;
            /** End only this lease, as seen in the lock's `lease_id`. */
            readonly lease_id?: string;
        };
        readonly FenceResetRequest: {
            readonly owner_id?: components["schemas"]["OwnerID"];
            /** The highest token of the resource, as a `STALE_TOKEN` showed it. */
            readonly highest_token: components["schemas"]["FencingToken"];
            /** For later; it stays in the fence's record. */
            readonly reason: string;
        };
        readonly FenceRemoveRequest: {
            readonly owner_id?: components["schemas"]["OwnerID"];
            /** The highest token of the resource; after a reset, the one that it was reset from. */
            readonly highest_token: components["schemas"]["FencingToken"];
            /** For the server's log. */
            readonly reason: string;
        };
        readonly FenceRequest: {
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly subject: components["schemas"]["FenceSubject"];
        };
        /**
         * What a token is one of: `lock/` and the key of the lock, for a permit with `#` and its number behind it; `run/` and the ID of the
         *     run. UTF-8 without control characters, at most 320 bytes.
         */
        readonly FenceSubject: string;
        /**
         * Who runs it. In development mode it is required. With authentication the owner is the token's subject; a value here is
         *     a suffix of 1 to 64 letters, digits, ".", "_" and "-" that tells instances of one subject apart, giving "subject#suffix", or
         *     that whole name as a grant returned it.
         */
        readonly RunOwnerID: string;
        /**
         * Format: int64
         * How long the lock lasts from now, in whole seconds.
         * @default 300
         */
        readonly AnalysisTTLSeconds: number;
        /** Why the run failed, in up to 1024 bytes. Stored in the document. */
        readonly FailureReason: string;
        readonly AnalysisLockRequest: {
            readonly owner_id?: components["schemas"]["RunOwnerID"];
            readonly request_id: components["schemas"]["RequestID"];
            readonly ttl_seconds?: components["schemas"]["AnalysisTTLSeconds"];
            /**
             * Format: int64
             * An analysis of which so many runs have failed becomes FAILED instead of running again. 0, or left out, is no bound.
             */
            readonly max_failures?: number;
            /**
             * What the analysis is about, such as a hash of its input. The first lock that says so stores it in the document, and another one is
             *     `RUN_DIFFERS`. Left out, nothing is compared.
             */
            readonly fingerprint?: string;
            readonly not_after?: components["schemas"]["NotAfter"];
            readonly give_up?: components["schemas"]["GiveUp"];
        };
        readonly AnalysisRefreshRequest: {
            readonly owner_id?: components["schemas"]["RunOwnerID"];
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly ttl_seconds?: components["schemas"]["AnalysisTTLSeconds"];
        };
        readonly AnalysisReleaseRequest: {
            readonly owner_id?: components["schemas"]["RunOwnerID"];
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly failure_reason?: components["schemas"]["FailureReason"];
        };
        readonly AnalysisFinishRequest: {
            readonly owner_id?: components["schemas"]["RunOwnerID"];
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly status: components["schemas"]["RunEnd"];
            /** With READY, the result or where it is, in up to 256 KiB. Left out, the document's is not changed. */
            readonly result?: string;
            readonly failure_reason?: components["schemas"]["FailureReason"];
        };
        /**
         * How an analysis ended. Any other status, or none, is unfinished.
         * 
         */
        readonly RunEnd: "READY" | "FAILED";
        /**
         * Why a run was not granted. `not_due` is of runs with a `due_at` alone.
         * 
         */
        readonly RunSkip: "already_finished" | "locked" | "not_due";
        /** Format: int64 */
        readonly Milliseconds: number;
        /** Format: int64 */
        readonly Count: number;
        /** The response to a request for a run; `acquired` tells the two shapes apart. */
        readonly AnalysisGrant: components["schemas"]["AnalysisGranted"] | components["schemas"]["AnalysisSkipped"];
        /** The run is the caller's until `expires_at`. */
        readonly AnalysisGranted: {
            readonly analysis_id: string;
            readonly acquired: true;
            /** Of the analysis, if it has one. */
            readonly status?: string;
            readonly owner_id: string;
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly expires_at: components["schemas"]["Time"];
            /**
             * How long the lock lasts from the server's decision. Count it from before the request was sent: then the clocks of client and
             *     server need not agree.
             */
            readonly remaining_ms: components["schemas"]["Milliseconds"];
            /**
             * Format: int64
             * How often to refresh; missing for a lock of a second.
             */
            readonly heartbeat_seconds?: number;
            /** Runs begun since the last one that ended by itself, including this one; above 1 it is a takeover. */
            readonly runs: components["schemas"]["Count"];
            /** Runs that failed before. */
            readonly failures: components["schemas"]["Count"];
            /** The same request_id had this lock already. */
            readonly replayed: boolean;
        };
        /** The run was not granted. With `locked`, `owner_id` runs the analysis until `expires_at` at least. */
        readonly AnalysisSkipped: {
            readonly analysis_id: string;
            readonly acquired: false;
            readonly reason: components["schemas"]["RunSkip"];
            /** Of the analysis, if it has one. */
            readonly status?: string;
            /** With READY: the document's result, if it has one. */
            readonly result?: string;
            /** With FAILED: why, if the document says it. */
            readonly failure_reason?: string;
            readonly owner_id?: string;
            readonly expires_at?: components["schemas"]["Time"];
            /** With `locked`: until the lock expires, unless its holder refreshes it. */
            readonly retry_after_ms?: components["schemas"]["Milliseconds"];
        };
        /** The lock of a run, as its holder sees it. */
        readonly AnalysisLock: {
            readonly analysis_id: string;
            readonly owner_id: string;
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly expires_at: components["schemas"]["Time"];
            readonly remaining_ms: components["schemas"]["Milliseconds"];
        };
        readonly AnalysisReleased: {
            readonly analysis_id: string;
            readonly failures: components["schemas"]["Count"];
            readonly replayed: boolean;
        };
        readonly AnalysisCreated: {
            readonly analysis_id: string;
            /** As in the document; missing if it has none. */
            readonly status?: string;
            /** The document was created by this request. */
            readonly created: boolean;
        };
        readonly AnalysisFinished: {
            readonly analysis_id: string;
            readonly status: components["schemas"]["RunEnd"];
            readonly replayed: boolean;
        };
        /** An analysis, as every worker may see it. */
        readonly Analysis: {
            readonly analysis_id: string;
            /** As in the document; missing if it has none. */
            readonly status?: string;
            /** The status is READY or FAILED. */
            readonly finished: boolean;
            /** A worker runs it now. */
            readonly locked: boolean;
            /** Who runs it, or ran it until the lock expired. */
            readonly owner_id?: string;
            readonly expires_at?: components["schemas"]["Time"];
            readonly runs: components["schemas"]["Count"];
            readonly failures: components["schemas"]["Count"];
            readonly result?: string;
            /** Of the last failed run. */
            readonly failure_reason?: string;
            /** When the server made it READY or FAILED; missing if another program did. */
            readonly finished_at?: components["schemas"]["Time"];
            readonly retry?: components["schemas"]["RunRetry"];
        };
        /** Who let it run once more, the last time, and why. */
        readonly RunRetry: {
            readonly by: string;
            readonly reason: string;
            readonly at: components["schemas"]["Time"];
        };
        readonly AnalysisRetryRequest: {
            readonly request_id: components["schemas"]["RequestID"];
            /** The administrator. In development mode it is required. With authentication it is the token's subject, and a value here a suffix to it. */
            readonly owner_id?: components["schemas"]["OwnerID"];
            /** For later; it stays in the document until the next retry. */
            readonly reason: string;
            /** When the analysis failed, as it showed it. It is retried only while that is so, so that no delivery of this request, however late, lets a later failure run again. */
            readonly finished_at?: components["schemas"]["Time"];
        };
        /** The analysis after a retry; after a repeated one, as it is now. */
        readonly AnalysisRetried: {
            readonly analysis_id: string;
            /** As in the document; missing if it has none. */
            readonly status?: string;
            readonly retry?: components["schemas"]["RunRetry"];
            /** This request_id retried the analysis before; nothing was changed now. */
            readonly replayed: boolean;
        };
        readonly AnalysisPage: {
            readonly analyses: readonly components["schemas"]["Analysis"][];
            readonly counts: components["schemas"]["WorkCounts"];
            readonly unreadable?: readonly components["schemas"]["UnreadableAnalysis"][];
            /** `page_token` of the next page; missing on the last. */
            readonly next_page_token?: string;
        };
        /**
         * How far an analysis or a run has come, whatever a program of your own writes into its status. RUNNING: its lock is held. STALE: it is
         *     not finished, and its lock has expired: it waits for a takeover. PENDING: none of the others; it was not begun, or its last run
         *     released it.
         * 
         */
        readonly WorkState: "RUNNING" | "STALE" | "FAILED" | "PENDING" | "READY";
        /** What was read for a page, by state, whether or not it is in the page. The sum over all pages is that of all. */
        readonly WorkCounts: {
            /**
             * Format: int64
             * All that were read: also those that cannot be read, and those that are kept no longer.
             */
            readonly documents: number;
            /** Format: int64 */
            readonly running: number;
            /** Format: int64 */
            readonly stale: number;
            /** Format: int64 */
            readonly failed: number;
            /** Format: int64 */
            readonly pending: number;
            /** Format: int64 */
            readonly ready: number;
        };
        /** A document that is no analysis which the server can judge. The server's log says what is wrong with it. */
        readonly UnreadableAnalysis: {
            readonly analysis_id: string;
            /** `DOCUMENT_DAMAGED`: a field holds what it cannot. `INVALID_ARGUMENT`: its ID is none that a command can name. */
            readonly code: components["schemas"]["Code"];
        };
        /**
         * Format: int64
         * How long the lock lasts from now, in whole seconds.
         * @default 30
         */
        readonly RunTTLSeconds: number;
        /**
         * Format: int64
         * How long the record of the run is kept, in whole seconds, after the end of the run or, while it runs, after the end
         *     of its lock. Left out, it is as an earlier request of this run said, or a day if none did; the latest one that says
         *     it counts.
         */
        readonly RunKeepSeconds: number;
        readonly RunBeginRequest: {
            readonly owner_id?: components["schemas"]["RunOwnerID"];
            readonly request_id: components["schemas"]["RequestID"];
            readonly ttl_seconds?: components["schemas"]["RunTTLSeconds"];
            /**
             * What the run is about, such as a hash of its input. The first run of an ID stores it, and another one is `RUN_DIFFERS`. Left out,
             *     nothing is compared.
             */
            readonly fingerprint?: string;
            /**
             * Format: int64
             * A run that failed so often becomes FAILED instead of running again. 0, or left out, is no bound.
             */
            readonly max_failures?: number;
            /**
             * Format: int64
             * How often the run may be taken over from a worker that crashed or lost its lock. After that it becomes FAILED instead of running
             *     again. 0: it is begun once, and never again after a crash. Left out, it is as the server says: 5, unless it was set.
             */
            readonly max_takeovers?: number;
            /**
             * For a job that comes round again: the time for which this run is due. The ID is the job's, and one record serves all its runs, so that no two
             *     of them are at work at once. A run of a later time than that of the record begins anew; one of the same time runs once. It is granted
             *     only from `due_at` to `next_due_at` by the store's time, otherwise the reason is `not_due`. It needs `next_due_at`.
             */
            readonly due_at?: components["schemas"]["RequestTime"];
            /** The time for which the next run is due, later than `due_at`. */
            readonly next_due_at?: components["schemas"]["RequestTime"];
            /**
             * Format: int64
             * For a job that comes round again, without `due_at`: a run that has ended begins anew when so many seconds have passed since it began.
             *     Before, it is `already_finished`, with `retry_after_ms`.
             */
            readonly every_seconds?: number;
            readonly keep_seconds?: components["schemas"]["RunKeepSeconds"];
            readonly not_after?: components["schemas"]["NotAfter"];
            readonly give_up?: components["schemas"]["GiveUp"];
        };
        readonly RunRefreshRequest: {
            readonly owner_id?: components["schemas"]["RunOwnerID"];
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly ttl_seconds?: components["schemas"]["RunTTLSeconds"];
            readonly keep_seconds?: components["schemas"]["RunKeepSeconds"];
        };
        readonly RunReleaseRequest: {
            readonly owner_id?: components["schemas"]["RunOwnerID"];
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly failure_reason?: components["schemas"]["FailureReason"];
            readonly keep_seconds?: components["schemas"]["RunKeepSeconds"];
        };
        readonly RunFinishRequest: {
            readonly owner_id?: components["schemas"]["RunOwnerID"];
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly status: components["schemas"]["RunEnd"];
            /** With READY, the result, in up to 256 KiB. Callers that begin the run later get it. */
            readonly result?: string;
            readonly failure_reason?: components["schemas"]["FailureReason"];
            readonly keep_seconds?: components["schemas"]["RunKeepSeconds"];
        };
        readonly RunRetryRequest: {
            readonly request_id: components["schemas"]["RequestID"];
            readonly owner_id?: components["schemas"]["RunOwnerID"];
            /** For later; it stays in the record until the next retry. */
            readonly reason: string;
            /** When the run ended, as it showed it. The request has an effect only while that is so. */
            readonly finished_at?: components["schemas"]["RequestTime"];
        };
        /** The run after a retry; after a repeated one, as it is now. */
        readonly RunRetried: {
            readonly run_id: string;
            /** How it ended, if it has since. */
            readonly status?: components["schemas"]["RunEnd"];
            readonly retry?: components["schemas"]["RunRetry"];
            /** This request_id was carried out before; nothing was changed now. */
            readonly replayed: boolean;
        };
        readonly RunRemoveRequest: {
            readonly request_id: components["schemas"]["RequestID"];
            readonly owner_id?: components["schemas"]["RunOwnerID"];
            /** For the audit log. */
            readonly reason: string;
        };
        readonly RunRemoved: {
            readonly run_id: string;
            /** This request_id removed it before; nothing was changed now. */
            readonly replayed: boolean;
        };
        /** The response to a request for a run; `acquired` tells the two shapes apart. */
        readonly RunGrant: components["schemas"]["RunGranted"] | components["schemas"]["RunSkipped"];
        /** The run is the caller's until `expires_at`. */
        readonly RunGranted: {
            readonly run_id: string;
            readonly acquired: true;
            readonly owner_id: string;
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly expires_at: components["schemas"]["Time"];
            /**
             * How long the lock lasts from the server's decision. Count it from before the request was sent: then the clocks of client and
             *     server need not agree.
             */
            readonly remaining_ms: components["schemas"]["Milliseconds"];
            /**
             * Format: int64
             * How often to refresh; missing for a lock of a second.
             */
            readonly heartbeat_seconds?: number;
            /** The time for which the run is due; missing if it came without one. */
            readonly due_at?: components["schemas"]["Time"];
            /** Runs begun since the last one that ended by itself, including this one; above 1 it is a takeover. */
            readonly runs: components["schemas"]["Count"];
            /** Runs that failed before. */
            readonly failures: components["schemas"]["Count"];
            /** The same request_id had this lock already. */
            readonly replayed: boolean;
        };
        /** The run was not granted. With `locked`, `owner_id` runs it until `expires_at` at least. */
        readonly RunSkipped: {
            readonly run_id: string;
            readonly acquired: false;
            readonly reason: components["schemas"]["RunSkip"];
            /** With `already_finished`: how it ended. */
            readonly status?: components["schemas"]["RunEnd"];
            /** With READY: what was stored; missing if nothing was. */
            readonly result?: string;
            /** With FAILED: why. */
            readonly failure_reason?: string;
            readonly owner_id?: string;
            readonly expires_at?: components["schemas"]["Time"];
            /**
             * With `locked`: until the lock expires, unless its holder refreshes it. With `already_finished` and `every_seconds`: until it may run again. With
             *     `not_due`, if it is too early: until it is due.
             */
            readonly retry_after_ms?: components["schemas"]["Milliseconds"];
            /** The time for which the run of the record is due, or was; missing if it came without one. */
            readonly due_at?: components["schemas"]["Time"];
            /** With `not_due`: the store's time, by which it was judged. */
            readonly now?: components["schemas"]["Time"];
        };
        /** The lock of a run, as its holder sees it. */
        readonly RunLock: {
            readonly run_id: string;
            readonly owner_id: string;
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly expires_at: components["schemas"]["Time"];
            readonly remaining_ms: components["schemas"]["Milliseconds"];
        };
        readonly RunReleased: {
            readonly run_id: string;
            readonly failures: components["schemas"]["Count"];
            readonly replayed: boolean;
        };
        readonly RunFinished: {
            readonly run_id: string;
            readonly status: components["schemas"]["RunEnd"];
            readonly replayed: boolean;
        };
        /** A run, as every caller of its tenant may see it. */
        readonly Run: {
            readonly run_id: string;
            /** How it ended; missing if it has not. */
            readonly status?: components["schemas"]["RunEnd"];
            /** The status is READY or FAILED. */
            readonly finished: boolean;
            /** A caller runs it now. */
            readonly locked: boolean;
            /** Who runs it, or ran it until the lock expired. */
            readonly owner_id?: string;
            readonly expires_at?: components["schemas"]["Time"];
            readonly runs: components["schemas"]["Count"];
            readonly failures: components["schemas"]["Count"];
            readonly result?: string;
            /** Of the last failed run. */
            readonly failure_reason?: string;
            /** When it became READY or FAILED. */
            readonly finished_at?: components["schemas"]["Time"];
            /** The time for which the latest run of a job is due, or was; missing if it came without one. */
            readonly due_at?: components["schemas"]["Time"];
            /** When the latest run of a job began; missing for a run without `due_at` and `every_seconds`. */
            readonly begun_at?: components["schemas"]["Time"];
            /** Until when the record is kept, unless another request comes. From then on the ID is a new one. */
            readonly kept_until?: components["schemas"]["Time"];
            readonly retry?: components["schemas"]["RunRetry"];
        };
        /** A document that is no run which the server can judge. The server's log says what is wrong with it. */
        readonly UnreadableRun: {
            readonly run_id: string;
            /** `DOCUMENT_DAMAGED`: a field holds what it cannot. */
            readonly code: components["schemas"]["Code"];
        };
        readonly RunPage: {
            readonly counts: components["schemas"]["WorkCounts"];
            /** Without their results. */
            readonly runs: readonly components["schemas"]["Run"][];
            readonly unreadable?: readonly components["schemas"]["UnreadableRun"][];
            /** `page_token` of the next page; missing on the last. */
            readonly next_page_token?: string;
        };
        /** A lease, as its holder sees it. */
        readonly Lease: {
            readonly tenant_id: string;
            readonly lock_key: string;
            /** Names this one lease. It gives no rights. */
            readonly lease_id: string;
            readonly owner_id: string;
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly state: components["schemas"]["State"];
            readonly acquired_at: components["schemas"]["Time"];
            readonly expires_at: components["schemas"]["Time"];
            /**
             * How long the lease lasts from the server's decision. Count it from before the request was sent: then the clocks of client and
             *     server need not agree.
             */
            readonly remaining_ms: components["schemas"]["Milliseconds"];
            /**
             * With `wait_seconds`: how long the request waited, at least, before the server decided. The lease lasts for remaining_ms and so much more,
             *     counted from before the request was sent.
             */
            readonly waited_ms?: components["schemas"]["Milliseconds"];
            /** Of the latest acquire or renewal. With `rate`: the length of the window. */
            readonly ttl_seconds: components["schemas"]["TTLSeconds"];
            readonly metadata: components["schemas"]["Metadata"];
            /** Left out for `exclusive`. */
            readonly mode?: components["schemas"]["LockMode"];
            /**
             * Format: int64
             * With `permits`: which one, from 1 to the limit. Tokens of one permit only ever increase.
             */
            readonly permit?: number;
            /** This request_id was carried out before; nothing was changed now. */
            readonly replayed: boolean;
        };
        /** Several leases of one owner, as their holder sees them. */
        readonly LockSet: {
            readonly tenant_id: string;
            readonly owner_id: string;
            readonly state: components["schemas"]["State"];
            /** By the bytes of their keys. */
            readonly leases: readonly components["schemas"]["LockSetLease"][];
            /** After an acquire. */
            readonly acquired_at?: components["schemas"]["Time"];
            /** When the first of them expires. Leases that are renewed together expire together. */
            readonly expires_at: components["schemas"]["Time"];
            /**
             * How long all of them last from the server's decision. Count it from before the request was sent: then the clocks of client and
             *     server need not agree.
             */
            readonly remaining_ms: components["schemas"]["Milliseconds"];
            readonly ttl_seconds: components["schemas"]["TTLSeconds"];
            readonly metadata?: components["schemas"]["Metadata"];
            /** This request_id was carried out before; nothing was changed now. */
            readonly replayed: boolean;
        };
        readonly LockSetLease: {
            readonly lock_key: string;
            /** After an acquire. Names this one lease. It gives no rights. */
            readonly lease_id?: string;
            readonly fencing_token: components["schemas"]["FencingToken"];
        };
        /** Several leases that were released. */
        readonly LockSetReleased: {
            readonly tenant_id: string;
            readonly owner_id: string;
            readonly state: components["schemas"]["State"];
            readonly leases: readonly components["schemas"]["LockSetLease"][];
            readonly replayed: boolean;
        };
        /** A lease that was released. If a release is repeated after the lock had later leases, only the required fields are still known. */
        readonly EndedLease: {
            readonly tenant_id: string;
            readonly lock_key: string;
            readonly lease_id?: string;
            readonly owner_id: string;
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly state: components["schemas"]["State"];
            readonly acquired_at?: components["schemas"]["Time"];
            readonly expires_at?: components["schemas"]["Time"];
            readonly released_at?: components["schemas"]["Time"];
            readonly ttl_seconds?: components["schemas"]["TTLSeconds"];
            readonly metadata?: components["schemas"]["Metadata"];
            readonly replayed: boolean;
        };
        /**
         * A lease that an administrator ended. If a force-release is repeated after the lock had later leases, only the required fields are
         *     still known.
         */
        readonly ForceReleased: {
            readonly tenant_id: string;
            readonly lock_key: string;
            readonly lease_id?: string;
            readonly owner_id?: string;
            readonly state: components["schemas"]["State"];
            readonly acquired_at?: components["schemas"]["Time"];
            readonly expires_at?: components["schemas"]["Time"];
            readonly released_at?: components["schemas"]["Time"];
            readonly ttl_seconds?: components["schemas"]["TTLSeconds"];
            readonly metadata?: components["schemas"]["Metadata"];
            readonly force_release?: components["schemas"]["ForcedRelease"];
            readonly replayed: boolean;
        };
        /** How an administrator ended the lease. */
        readonly ForcedRelease: {
            readonly by: string;
            readonly reason: string;
            readonly at: components["schemas"]["Time"];
        };
        /** A lock, as every caller of its tenant may see it. */
        readonly Lock: {
            readonly tenant_id: string;
            readonly lock_key: string;
            /**
             * Names the latest lease. It is empty once that has ended and is not known any more: another one ended later, or an administrator
             *     ended the grants of a `rate`. Then `ttl_seconds` is 0, `owner_id` may be empty, and the times may all be when it ended.
             */
            readonly lease_id: string;
            readonly owner_id: string;
            readonly state: components["schemas"]["State"];
            readonly acquired_at: components["schemas"]["Time"];
            readonly expires_at: components["schemas"]["Time"];
            readonly released_at?: components["schemas"]["Time"];
            /**
             * Format: int64
             * Of the latest acquire or renewal; 0 if that is not known any more. With `rate`: the length of the window.
             */
            readonly ttl_seconds: number;
            readonly metadata: components["schemas"]["Metadata"];
            readonly force_release?: components["schemas"]["ForcedRelease"];
            /** Left out for `exclusive`. */
            readonly mode?: components["schemas"]["LockMode"];
            /**
             * Format: int64
             * With `permits`: how many may hold the lock at a time. With `rate`: how many grants a window may have.
             */
            readonly limit?: number;
            /**
             * Format: int64
             * With `rate`: the length of the window, in seconds.
             */
            readonly window_seconds?: number;
            /**
             * Until then the lock stays closed after a lease that expired or was ended by force: its lock delay; or it is kept for a request for several locks.
             *     With `rate`, if the grants are used up: when the next one is possible.
             */
            readonly free_at?: components["schemas"]["Time"];
            /**
             * The leases that last, by token, if the lock has a line or a mode with several holders. The members above are of the latest one. Left out for one lease
             *     without a line, and with `rate`.
             */
            readonly holders?: readonly components["schemas"]["LockHolder"][];
            /** Who waits in line, the next one first, 100 at most. Left out if no one does. */
            readonly waiting?: readonly components["schemas"]["LockWaiter"][];
            /** The last leases that have ended, the latest first: as many as the lock's document has room for. Not in lists. Grants of a rate are not in it. */
            readonly history?: readonly components["schemas"]["PastLease"][];
            readonly refused?: components["schemas"]["LockRefusal"];
        };
        /** One lease of a lock that can have several. */
        readonly LockHolder: {
            /** Names this one lease, such as for a force-release. It gives no rights. */
            readonly lease_id: string;
            /** Who holds it. */
            readonly owner_id: string;
            /** `exclusive` for a writer, `shared` for a reader, otherwise that of the lock. */
            readonly mode: components["schemas"]["LockMode"];
            /**
             * Format: int64
             * With `permits`: which one, from 1 to the limit.
             */
            readonly permit?: number;
            /** When it was granted. */
            readonly acquired_at: components["schemas"]["Time"];
            /** When it ends, unless it is renewed. */
            readonly expires_at: components["schemas"]["Time"];
            /**
             * Format: int64
             * Of the latest acquire or renewal, in seconds.
             */
            readonly ttl_seconds: number;
            readonly metadata?: components["schemas"]["Metadata"];
        };
        /** A request that waits in line, and whose place counts. */
        readonly LockWaiter: {
            /** Who waits. */
            readonly owner_id: string;
            /** In which mode it is to hold the lock. */
            readonly mode: components["schemas"]["LockMode"];
            /** When it got its place. */
            readonly since: components["schemas"]["Time"];
            /** When the place is given up, unless the request is sent again. */
            readonly until: components["schemas"]["Time"];
        };
        /** A lease that has ended. */
        readonly PastLease: {
            /** Who held it, cut to 32 bytes. */
            readonly owner_id: string;
            /** Of the lease that has ended; with it nothing can be changed. */
            readonly fencing_token: components["schemas"]["FencingToken"];
            /** When it was granted. */
            readonly acquired_at: components["schemas"]["Time"];
            /** When it was released, ended by force or replaced, or its expiry. */
            readonly ended_at: components["schemas"]["Time"];
            /**
             * `released` by its holder; `expired`; `forced`: ended by an administrator; `replaced` by an acquire with `replace`.
             * 
             */
            readonly ended: "released" | "expired" | "forced" | "replaced";
            /** With `forced`: the administrator; with `replaced`: who replaced it. Cut to 32 bytes. */
            readonly ended_by?: string;
        };
        /** Who was refused last, if the server records that (`LEASEHOLD_RECORD_REFUSALS`). Not in lists. */
        readonly LockRefusal: {
            readonly owner_id: string;
            readonly at: components["schemas"]["Time"];
        };
        readonly LockPage: {
            readonly locks: readonly components["schemas"]["Lock"][];
            readonly counts: components["schemas"]["LockCounts"];
            readonly unreadable?: readonly components["schemas"]["UnreadableLock"][];
            /** The store's time when the page was read, by which the states were told: a lease has `expires_at` - `at` left. */
            readonly at: components["schemas"]["Time"];
            /** `page_token` of the next page; missing on the last. */
            readonly next_page_token?: string;
        };
        /** What was read for a page, whether or not it is in the page. The sum over all pages is that of all locks. */
        readonly LockCounts: {
            /**
             * Format: int64
             * All that were read: also those that cannot be read, and what is left of requests that were given up.
             */
            readonly documents: number;
            /**
             * Format: int64
             * Held.
             */
            readonly active: number;
            /** Format: int64 */
            readonly released: number;
            /** Format: int64 */
            readonly expired: number;
            /**
             * Format: int64
             * Locks with a line.
             */
            readonly waited_for: number;
            /**
             * Format: int64
             * Held locks with a lease of which less than a third is left.
             */
            readonly ending: number;
        };
        /**
         * A lock of the page whose document cannot be read. It is listed whatever the state that was asked for. The server's log says what is wrong
         *     with it.
         */
        readonly UnreadableLock: {
            readonly lock_key: string;
            /** `DOCUMENT_DAMAGED`: a field holds what it cannot, or there is something else in the document's place. */
            readonly code: components["schemas"]["Code"];
        };
        readonly Fence: {
            readonly tenant_id: string;
            readonly resource: string;
            /** Lower tokens are rejected. */
            readonly highest_token: components["schemas"]["FencingToken"];
            /** What the token is one of: tokens of others are rejected. */
            readonly subject: string;
        };
        readonly FencePassed: {
            readonly tenant_id: string;
            readonly resource: string;
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly subject: string;
        };
        readonly FenceReset: {
            readonly tenant_id: string;
            readonly resource: string;
            /** The token that was forgotten. */
            readonly reset_token: components["schemas"]["FencingToken"];
            readonly replayed: boolean;
        };
        readonly FenceRemoved: {
            readonly tenant_id: string;
            readonly resource: string;
            /** The token that was named, and is forgotten. */
            readonly removed_token: components["schemas"]["FencingToken"];
            /** Whether there was no fence already. */
            readonly replayed: boolean;
        };
        readonly ClusterRemoveRequest: {
            /**
             * Format: int64
             * The current one.
             */
            readonly epoch: number;
            /** For the server's log. */
            readonly reason: string;
        };
        readonly ClusterRemoved: {
            readonly tenant_id: string;
            readonly cluster: string;
            /**
             * Format: int64
             * The epoch that the request named.
             */
            readonly epoch: number;
            /**
             * Format: int64
             * Of which what was remembered was removed by this request.
             */
            readonly identities: number;
            /** Whether it was removed before. */
            readonly replayed: boolean;
        };
        readonly ClusterListed: {
            readonly cluster: string;
        };
        readonly ClusterPage: {
            readonly clusters: readonly components["schemas"]["ClusterListed"][];
            /** `page_token` of the next page; missing on the last. */
            readonly next_page_token?: string;
        };
        /** Keys of 1 to 64 bytes, values of up to 128. */
        readonly Labels: {
            readonly [key: string]: string;
        };
        /** The kinds of identities that the member hosts; none if it is empty. */
        readonly Kinds: readonly string[];
        /**
         * Format: int64
         * The member's share of the partitions, relative to the other members; 0 means 1.
         */
        readonly Weight: number;
        /**
         * Format: int64
         * One life of a member, from its join until it leaves or is evicted. It only ever increases for one name.
         */
        readonly IncarnationNumber: number;
        /**
         * Format: int64
         * Each change of the members begins a new one.
         */
        readonly Epoch: number;
        /**
         * Format: int64
         * How long the member's lease lasts from now, in whole seconds.
         * @default 10
         */
        readonly MemberTTLSeconds: number;
        /**
         * Format: int64
         * How long the owner has to activate the identity while it lives, in whole seconds: a bound for owners that hang.
         * @default 600
         */
        readonly LockTTLSeconds: number;
        /** Where the member is reached, for its clients. */
        readonly Address: string;
        /**
         * An ACTIVE member is given activations, a DRAINING one keeps those that it has. LEFT and DEAD are for ever.
         * 
         */
        readonly MemberStatus: "ACTIVE" | "DRAINING" | "LEFT" | "DEAD";
        /**
         * FREE: no one's. LOCKED: its owner alone may activate it. ACTIVE: its owner serves it.
         * 
         */
        readonly Phase: "FREE" | "LOCKED" | "ACTIVE";
        /**
         * A cluster is READY while it has an active member.
         * 
         */
        readonly ClusterStatus: "READY" | "UNDETERMINED";
        /**
         * For MEMBER_INELIGIBLE: why the member may not host the identity.
         * 
         */
        readonly Ineligible: "NOT_A_MEMBER" | "DRAINING" | "FULL" | "LACKS_KIND" | "LACKS_LABELS" | "PLACED_ON_OTHER";
        readonly Incarnation: {
            readonly member: string;
            readonly incarnation: components["schemas"]["IncarnationNumber"];
        };
        readonly MemberJoinRequest: {
            readonly request_id: components["schemas"]["RequestID"];
            readonly kinds: components["schemas"]["Kinds"];
            readonly labels?: components["schemas"]["Labels"];
            readonly weight?: components["schemas"]["Weight"];
            /** It hosts what it has and is given no new activations. */
            readonly full?: boolean;
            readonly address?: components["schemas"]["Address"];
            readonly ttl_seconds?: components["schemas"]["MemberTTLSeconds"];
            /**
             * Format: int64
             * A power of two, 16 at least. It can never change, and a member that asks for another number is rejected. 0 asks for none: 4096 if
             *     it is the first member.
             */
            readonly partitions?: number;
            readonly not_after?: components["schemas"]["NotAfter"];
        };
        readonly MemberReplaceRequest: {
            readonly request_id: components["schemas"]["RequestID"];
            readonly replaces: components["schemas"]["Incarnation"];
            readonly kinds: components["schemas"]["Kinds"];
            readonly labels?: components["schemas"]["Labels"];
            readonly weight?: components["schemas"]["Weight"];
            /** It hosts what it has and is given no new activations. */
            readonly full?: boolean;
            readonly address?: components["schemas"]["Address"];
            readonly ttl_seconds?: components["schemas"]["MemberTTLSeconds"];
            readonly not_after?: components["schemas"]["NotAfter"];
        };
        readonly MemberHeartbeatRequest: {
            readonly incarnation: components["schemas"]["IncarnationNumber"];
            /**
             * Format: int64
             * 1 for the first heartbeat of the incarnation, and one more for each.
             */
            readonly seq: number;
            readonly ttl_seconds?: components["schemas"]["MemberTTLSeconds"];
        };
        readonly MemberRequest: {
            readonly incarnation: components["schemas"]["IncarnationNumber"];
        };
        readonly MemberEvictRequest: {
            readonly incarnation: components["schemas"]["IncarnationNumber"];
            /** For later; it stays in the event. */
            readonly reason: string;
        };
        readonly MemberOfferRequest: {
            readonly incarnation: components["schemas"]["IncarnationNumber"];
            readonly request_id: components["schemas"]["RequestID"];
            readonly kinds: components["schemas"]["Kinds"];
            readonly labels?: components["schemas"]["Labels"];
            readonly weight?: components["schemas"]["Weight"];
            /** It hosts what it has and is given no new activations. */
            readonly full?: boolean;
            /** Where the member is reached from now on. Without it the address stays as it is. */
            readonly address?: components["schemas"]["Address"];
        };
        /** A member after a command. */
        readonly MemberState: {
            readonly member: string;
            readonly incarnation: components["schemas"]["IncarnationNumber"];
            /** After a heartbeat, DRAINING tells the member to hand over what it serves. */
            readonly status?: components["schemas"]["MemberStatus"];
            /**
             * Format: int64
             * That the command began, or the current one; missing after a heartbeat.
             */
            readonly epoch?: number;
            /**
             * Format: int64
             * Partitions that changed hands with the epoch.
             */
            readonly moved?: number;
            readonly expires_at?: components["schemas"]["Time"];
            /**
             * Format: int64
             * Of its lease.
             */
            readonly remaining_ms?: number;
            /** The command was carried out before; nothing was changed now. */
            readonly replayed: boolean;
        };
        /** A member as an epoch has it. */
        readonly ClusterMember: {
            readonly member: string;
            readonly incarnation: components["schemas"]["IncarnationNumber"];
            readonly status: components["schemas"]["MemberStatus"];
            readonly kinds: components["schemas"]["Kinds"];
            readonly labels?: components["schemas"]["Labels"];
            readonly weight?: components["schemas"]["Weight"];
            readonly full?: boolean;
            readonly address?: components["schemas"]["Address"];
            /**
             * Format: int64
             * The epoch of its latest change.
             */
            readonly since: number;
            /** The time of that change. */
            readonly at?: components["schemas"]["Time"];
        };
        readonly MemberList: {
            /** By ascending name: all, or with `since` those that joined or changed. */
            readonly members: readonly components["schemas"]["ClusterMember"][];
            readonly cluster: string;
            readonly status: components["schemas"]["ClusterStatus"];
            readonly epoch: components["schemas"]["Epoch"];
            /** When the epoch began; missing if there was none. */
            readonly changed_at?: components["schemas"]["Time"];
            /** The epoch that the caller named, if the response says what changed since; otherwise missing. */
            readonly since?: components["schemas"]["Epoch"];
            /** With `since`, the names of members that are gone. */
            readonly gone?: readonly string[];
        };
        readonly Topology: {
            /** By ascending name. */
            readonly members: readonly components["schemas"]["ClusterMember"][];
            readonly cluster: string;
            readonly status: components["schemas"]["ClusterStatus"];
            readonly epoch: components["schemas"]["Epoch"];
            /** When the epoch began; missing if there was none. */
            readonly changed_at?: components["schemas"]["Time"];
            /** What began the epoch, for people. */
            readonly cause?: string;
            /** Format: int64 */
            readonly hash_version: number;
            /** Format: int64 */
            readonly partitions: number;
            /** For each partition, the index of its member in `members`; -1 if no member is active. */
            readonly table: readonly number[];
        };
        /** The one activation that an identity can have. After a command of its owner, what the command says and changes. */
        readonly Activation: {
            readonly kind: string;
            readonly id: string;
            readonly phase: components["schemas"]["Phase"];
            readonly fencing_token?: components["schemas"]["FencingToken"];
            /** The owner by the latest claim or transfer, also when it is FREE again. */
            readonly member?: string;
            readonly incarnation?: components["schemas"]["IncarnationNumber"];
            readonly address?: components["schemas"]["Address"];
            /**
             * Format: int64
             * By which it was placed.
             */
            readonly epoch?: number;
            /** While LOCKED, when another claim may have it. */
            readonly lock_until?: components["schemas"]["Time"];
            readonly claimed_at?: components["schemas"]["Time"];
            readonly activated_at?: components["schemas"]["Time"];
            readonly changed_at?: components["schemas"]["Time"];
            /** FREE because its activation failed. */
            readonly failed?: boolean;
            /** Why it failed or was ended. */
            readonly reason?: string;
            /**
             * Format: int64
             * How often its state was stored.
             */
            readonly state_version?: number;
            /**
             * Format: byte
             * What its owners stored, in base64.
             */
            readonly state?: string;
            /** For when its alarm is set; missing if it has none. */
            readonly alarm_at?: components["schemas"]["Time"];
            /**
             * Format: int64
             * How often that alarm was fired; more than 0: it is due.
             */
            readonly alarm_tries?: number;
            /**
             * Format: int64
             * How often its alarm was set or cleared.
             */
            readonly alarm_version?: number;
            /** When that alarm is fired next, if it is not carried out: `alarm_at` until it was fired. */
            readonly alarm_next_at?: components["schemas"]["Time"];
        };
        readonly ActivationOutcome: {
            /** With its `fencing_token`, `member` and `incarnation`. */
            readonly activation: WithRequired<components["schemas"]["Activation"], "fencing_token" | "member" | "incarnation">;
            /**
             * Format: int64
             * The current epoch, after a claim or transfer.
             */
            readonly epoch?: number;
            /**
             * Format: int64
             * Of the lock phase.
             */
            readonly remaining_ms?: number;
            /** The command was carried out before; nothing was changed now. */
            readonly replayed: boolean;
        };
        readonly ActivationPage: {
            readonly activations: readonly components["schemas"]["Activation"][];
            readonly unreadable?: readonly components["schemas"]["UnreadableActivation"][];
            readonly status: components["schemas"]["ClusterStatus"];
            readonly epoch: components["schemas"]["Epoch"];
            /** `page_token` of the next page; missing on the last. */
            readonly next_page_token?: string;
        };
        /** An activation of the page whose document cannot be read. The server's log says what is wrong with it. */
        readonly UnreadableActivation: {
            readonly kind: string;
            readonly id: string;
            /** `DOCUMENT_DAMAGED`: a field holds what it cannot, or there is something else in the document's place. */
            readonly code: components["schemas"]["Code"];
        };
        readonly Placement: {
            readonly kind: string;
            readonly id: string;
            readonly epoch: components["schemas"]["Epoch"];
            /** Format: int64 */
            readonly partition: number;
            /** On which the epoch places the identity; missing if no member is eligible. */
            readonly placed?: components["schemas"]["ClusterMember"];
            /** That has the activation; missing if it is free, or if its owner is not a member any more. */
            readonly owner?: components["schemas"]["ClusterMember"];
            /** Missing if the identity was never claimed. */
            readonly activation?: components["schemas"]["Activation"];
        };
        readonly ActivationClaimRequest: {
            readonly request_id: components["schemas"]["RequestID"];
            /** The member that claims for itself; without it anyone may ask. */
            readonly member?: string;
            /**
             * Format: int64
             * Of `member`, if there is one.
             */
            readonly incarnation?: number;
            readonly labels?: components["schemas"]["Labels"];
            readonly prefer?: components["schemas"]["Labels"];
            /**
             * Format: int64
             * How long the owner has to activate the identity while it lives, in whole seconds: a bound for owners that hang. 0 is 600, and with `member` no time: it is `ACTIVE` at once.
             */
            readonly lock_ttl_seconds?: number;
            readonly epoch?: components["schemas"]["Epoch"];
            readonly not_after?: components["schemas"]["NotAfter"];
        };
        /** What the owner of an activation names it by. */
        readonly ActivationHoldRequest: {
            readonly member: string;
            readonly incarnation: components["schemas"]["IncarnationNumber"];
            readonly fencing_token: components["schemas"]["FencingToken"];
        };
        readonly ActivationFailedRequest: {
            readonly member: string;
            readonly incarnation: components["schemas"]["IncarnationNumber"];
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly reason: string;
        };
        readonly ActivationEndRequest: {
            readonly member: string;
            readonly incarnation: components["schemas"]["IncarnationNumber"];
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly reason?: string;
        };
        readonly ActivationStateRequest: {
            readonly member: string;
            readonly incarnation: components["schemas"]["IncarnationNumber"];
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly request_id: components["schemas"]["RequestID"];
            /** Format: int64 */
            readonly state_version: number;
            /**
             * Format: byte
             * 32 KiB at most, in base64; empty is a state, too.
             */
            readonly state: string;
            /** What becomes of the alarm with the state; without it the alarm stays as it is. */
            readonly alarm?: components["schemas"]["AlarmChange"];
        };
        /** An alarm that is set, or cleared without `alarm_at`. */
        readonly AlarmChange: {
            /** Format: int64 */
            readonly alarm_version: number;
            /** When it is due; without it the alarm is cleared. */
            readonly alarm_at?: components["schemas"]["RequestTime"];
            /** That of the activation, as the caller knows it: then one for that time or later costs no more than a state. */
            readonly alarm_next_at?: components["schemas"]["RequestTime"];
        };
        readonly ActivationAlarmRequest: {
            readonly member: string;
            readonly incarnation: components["schemas"]["IncarnationNumber"];
            readonly fencing_token: components["schemas"]["FencingToken"];
            /** Format: int64 */
            readonly alarm_version: number;
            /** When it is due; without it the alarm is cleared. */
            readonly alarm_at?: components["schemas"]["RequestTime"];
            /** That of the activation, as the caller knows it: then one for that time or later costs no more than a state. */
            readonly alarm_next_at?: components["schemas"]["RequestTime"];
            /** Why the call for the alarm failed: nothing is changed, and it is an event, `ALARM_FAILED`. Then `alarm_at` is left out. */
            readonly failed?: string;
        };
        readonly ActivationTransferRequest: {
            readonly member: string;
            readonly incarnation: components["schemas"]["IncarnationNumber"];
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly request_id: components["schemas"]["RequestID"];
            /** The member to transfer it to, as the topology names it; without it, the one on which the identity is placed. */
            readonly to?: string;
            readonly labels?: components["schemas"]["Labels"];
            readonly prefer?: components["schemas"]["Labels"];
            readonly lock_ttl_seconds?: components["schemas"]["LockTTLSeconds"];
            readonly not_after?: components["schemas"]["NotAfter"];
        };
        /**
         * A change of a member, or of an activation if there is a `kind`. Claims that were refused are events, too, with `REFUSED` in `to` and the code as
         *     `reason`: those of an identity after longer and longer pauses, with how many there were, and ten in ten seconds of a cluster at most.
         *     `ALARM_FAILED` says why the call for an alarm failed.
         */
        readonly PlacementEvent: {
            /** Unique, and in the order of time but for the last ten seconds. */
            readonly event_id: string;
            readonly at: components["schemas"]["Time"];
            /** The member, or the owner of the activation. Of claims that were refused the member that claimed, if one did. */
            readonly member?: string;
            readonly incarnation?: components["schemas"]["IncarnationNumber"];
            readonly kind?: string;
            readonly id?: string;
            /** A status or phase; missing where the change does not depend on it. From `ACTIVE` to `ACTIVE`: its owner is told of its alarm. */
            readonly from?: string;
            /** A status or phase. */
            readonly to: string;
            /**
             * Format: int64
             * That the change began, or by which it was decided.
             */
            readonly epoch?: number;
            readonly fencing_token?: components["schemas"]["FencingToken"];
            /**
             * Format: int64
             * Partitions that changed hands with the epoch.
             */
            readonly moved?: number;
            readonly reason?: string;
        };
        readonly EventPage: {
            readonly events: readonly components["schemas"]["PlacementEvent"][];
            readonly unreadable?: readonly components["schemas"]["UnreadableEvent"][];
            /** What to send as `after` the next time. */
            readonly next: string;
            /**
             * Format: int64
             * With `wait_seconds`, if there is nothing new and the server holds no response for so long: in how many milliseconds to ask again.
             */
            readonly poll_after_ms?: number;
        };
        /** An event of the page whose document cannot be read. The server's log says what is wrong with it. */
        readonly UnreadableEvent: {
            readonly event_id: string;
            /** `DOCUMENT_DAMAGED`: a field holds what it cannot, or there is something else in the document's place. */
            readonly code: components["schemas"]["Code"];
        };
        /** Names the layout and the namespace. Left out or empty, the service "default". */
        readonly ServiceID: string;
        /**
         * Format: int64
         * A time in Unix milliseconds.
         */
        readonly UnixMilliseconds: number;
        readonly MachineIDLeaseRequest: {
            readonly serviceId?: components["schemas"]["ServiceID"];
            /**
             * Who leases, for people: host name, process ID. Keys of 1 to 64 bytes, values of up to 512. It is written to the server's
             *     log, beside the machine IDs, and stored nowhere.
             */
            readonly meta?: {
                readonly [key: string]: string;
            };
            /**
             * Format: int64
             * IDs to make in a millisecond. Left out, one lease. A server bounds the leases of one request, to 64 unless it is set up
             *     otherwise, which make 16384 IDs in the default layout.
             */
            readonly throughputPerMs?: number;
            readonly notAfter?: components["schemas"]["NotAfter"];
        };
        /** The lease of a machine ID, with all that is needed to make IDs under it. */
        readonly MachineIDLease: {
            /**
             * Format: int64
             * The machine ID.
             */
            readonly id: number;
            /**
             * Format: int64
             * The first timestamp of the lease, Unix milliseconds.
             */
            readonly created: number;
            /**
             * Format: int64
             * The first timestamp that is no longer the lease's, Unix milliseconds.
             */
            readonly expired: number;
            /** Signs the release. Keep it out of logs. */
            readonly secret: string;
            /**
             * Format: int64
             * The time of the timestamp 0, Unix milliseconds. Never changes.
             */
            readonly customEpoch: number;
            /** Zero bits at the top of an ID. Never changes. */
            readonly bitReserve: number;
            /** Bits of the timestamp. Never changes. */
            readonly bitTs: number;
            /** Bits of the machine ID. The highest is 0 in IDs made under a lease. */
            readonly bitId: number;
            /** Bits of the sequence. Leases of one caller may differ. */
            readonly bitSeq: number;
        };
        readonly MachineIDLeases: {
            readonly leases: readonly components["schemas"]["MachineIDLease"][];
        };
        readonly MachineIDReleaseRequest: {
            /** HMAC-SHA256 of `id:timestamp`, hexadecimal. */
            readonly signature: string;
            readonly timestamp: components["schemas"]["UnixMilliseconds"];
            /** The service that leased it. Left out, the signature tells. */
            readonly serviceId?: string;
        };
        readonly MachineIDForceReleaseRequest: {
            readonly serviceId?: components["schemas"]["ServiceID"];
            /**
             * Format: int64
             * The smallest machine ID, 0 if left out.
             */
            readonly first?: number;
            /**
             * Format: int64
             * The largest machine ID. Left out, there is no bound.
             */
            readonly last?: number;
            /** For the log. */
            readonly reason: string;
        };
        readonly MachineIDForceRelease: {
            /** The namespace of the service. */
            readonly space: string;
            /** Leases that were ended. */
            readonly leases: number;
            /**
             * Format: int64
             * From when on their machine IDs can be leased again, at the latest; Unix milliseconds.
             */
            readonly free: number;
        };
        readonly MachineIDSpace: {
            readonly space: string;
            /** Machine IDs, if all services of the namespace have the same layout; otherwise the units that leases consist of. */
            readonly units: number;
            /** Units that cannot be leased now. */
            readonly leased: number;
            readonly free: number;
            /**
             * Format: int64
             * When the next leased unit becomes free, Unix milliseconds; missing if none is leased.
             */
            readonly next_free?: number;
            /** Current leases, by service. */
            readonly leases: {
                readonly [key: string]: number;
            };
            /** Pages whose documents cannot be read: their units count as leased, and nothing is leased from them; left out if none. The server's log names them. */
            readonly unreadable_pages?: number;
        };
        readonly MachineIDMap: {
            readonly space: string;
            /**
             * Format: int64
             * The store's time of the read, Unix milliseconds.
             */
            readonly at: number;
            /**
             * Format: int64
             * How long the longest lease of the namespace's services lasts, in milliseconds.
             */
            readonly longest_lease: number;
            /** As in `MachineIDSpace`, and so are `leased`, `free`, `next_free`, `leases` and `unreadable_pages`. */
            readonly units: number;
            readonly leased: number;
            readonly free: number;
            /** Format: int64 */
            readonly next_free?: number;
            readonly unreadable_pages?: number;
            readonly leases: {
                readonly [key: string]: number;
            };
            /**
             * The pages of the namespace, each with a digit for each of its units: `0` if all of it is free; otherwise how long it stays leased, at most, in
             *     ninths of `longest_lease`, rounded up, `9` also for more. Services with smaller leases divide units, so that there can be
             *     fewer than `units`.
             */
            readonly pages: readonly string[];
            /**
             * Format: int64
             * The timestamp 0 of IDs, Unix milliseconds.
             */
            readonly custom_epoch: number;
            /** Zero bits at the top of an ID. */
            readonly bit_reserve: number;
            /** Bits of the timestamp in milliseconds. */
            readonly bit_ts: number;
            /** Bits of the machine ID; the rest is the sequence. If services have sequences of several lengths, with the shortest one. The upper half of the machine IDs is never leased: it is for IDs made without a lease. */
            readonly bit_id: number;
        };
        readonly MachineIDOccupancy: {
            readonly spaces: readonly components["schemas"]["MachineIDSpace"][];
        };
        readonly CallerInfo: {
            /** Missing in development mode. */
            readonly subject?: string;
            /** The only tenant that the caller may touch. Missing in development mode: any. */
            readonly tenant_id?: string;
            /** Whether the caller may do everything in its tenant: end leases of others, reset fences, remove clusters, read its outcomes and audit. */
            readonly administrator: boolean;
            /** Whether the caller may retry analyses, end leases of machine IDs, and see the clusters, outcomes and audit of all tenants. */
            readonly operator: boolean;
            /** Whether the caller may run analyses. */
            readonly worker: boolean;
            /** Whether the caller may lease machine IDs. */
            readonly machine_ids: boolean;
            /** Whether callers name themselves and have all rights. */
            readonly development: boolean;
            /** The release that runs, or what Go made up for a build of a clone. */
            readonly version?: string;
            /** The commit that it was built from, if that is known. */
            readonly commit?: string;
            /** The server's time. */
            readonly at: components["schemas"]["Time"];
        };
        readonly Outcome: {
            /**
             * Format: int64
             * Counts what this process has remembered of the tenant; for callers who see all tenants, of all.
             */
            readonly number: number;
            /** When it ended, by the server's clock. */
            readonly at: components["schemas"]["Time"];
            /** X-Request-Id of the exchange. */
            readonly request_id: string;
            readonly method: string;
            /** Escaped, cut after 1024 bytes, without the query. However it was sent, its escapes are those that are needed. */
            readonly path: string;
            /** The tenant that the path names, if it names one. */
            readonly tenant_id?: string;
            readonly status: number;
            /**
             * Format: double
             * In milliseconds.
             */
            readonly took_ms: number;
            /** Name of the action in the audit log, if it has one. */
            readonly action?: string;
            /** Who asked. Missing in development mode, and if the caller could not be identified. */
            readonly subject?: string;
            /** Their tenant. */
            readonly caller_tenant?: string;
            /** Whose lease it is, or was, as in the audit event. */
            readonly owner_id?: string;
            /** Why, in the caller's words. */
            readonly reason?: string;
            /** What the response said, if the request was rejected or failed; without the activation, and with long texts cut. */
            readonly problem?: components["schemas"]["Problem"];
        };
        readonly OutcomePage: {
            readonly outcomes: readonly components["schemas"]["Outcome"][];
            /** When the process began to remember requests of the tenant. */
            readonly since: components["schemas"]["Time"];
            /**
             * Format: int64
             * How many of them it has forgotten since then.
             */
            readonly forgotten: number;
            /** `page_token` of the next page; missing on the last. */
            readonly next_page_token?: string;
        };
        readonly LeaseHistory: {
            /** What it is: `lock`, `run`, `analysis`, `machine_ids`, `activation`. */
            readonly kind: string;
            /** Analyses and machine IDs have none. */
            readonly tenant_id?: string;
            /** Its name; of a machine ID, its service. */
            readonly key: string;
            /** Of an identity. */
            readonly cluster?: string;
            /** Format: int64 */
            readonly machine_id?: number;
            /** The time that was asked about; missing if all leases were. */
            readonly at?: components["schemas"]["Time"];
            /** Without `at`: its leases, the oldest first. */
            readonly leases?: readonly components["schemas"]["RecordedLease"][];
            /**
             * Format: int64
             * How many older leases were left off.
             */
            readonly left_off?: number;
            /** Who had it then, by token; several of a lock with other modes than exclusive. */
            readonly holders: readonly components["schemas"]["RecordedLease"][];
            /** No event says that someone had it then, but events are missing or were changed that may have said so. */
            readonly unknown?: boolean;
            /** The lease before, if no one had it for certain. */
            readonly before?: components["schemas"]["RecordedLease"];
            /** The lease after, if no one had it for certain. */
            readonly after?: components["schemas"]["RecordedLease"];
            /**
             * Format: int64
             * How many events are about it.
             */
            readonly events: number;
            /** Of the earliest of all events that were read: what was before is not known. */
            readonly first?: components["schemas"]["Time"];
            /** Of the latest. */
            readonly last?: components["schemas"]["Time"];
            /**
             * Format: int64
             * How many lines could not be read.
             */
            readonly broken_lines?: number;
        };
        /** What audit events say of one lease. Renewals are no events. */
        readonly RecordedLease: {
            /** Who had it; empty for machine IDs of callers without a name. */
            readonly owner: string;
            /**
             * Format: int64
             * Machine IDs have none.
             */
            readonly fencing_token?: number;
            /** Which bearer token its owner sent, as in the audit event. */
            readonly token_id?: string;
            /** Where the request for it came from. */
            readonly remote?: string;
            /**
             * Format: int64
             * Of the member that is its owner.
             */
            readonly incarnation?: number;
            /**
             * Format: int64
             * By which the identity was placed.
             */
            readonly epoch?: number;
            /**
             * Format: int64
             * Which attempt it is, as in the audit event.
             */
            readonly runs?: number;
            /**
             * Format: int64
             * Attempts that had failed by its end.
             */
            readonly failures?: number;
            /** Of a run: its status, or what became of its delivery. */
            readonly result?: string;
            /** A hash of its lease ID, as in the audit event. */
            readonly lease?: string;
            readonly mode?: string;
            /** Format: int64 */
            readonly permit?: number;
            /** Missing if no event says. */
            readonly granted_at?: components["schemas"]["Time"];
            /** It was handed over to the next in line. */
            readonly in_line?: boolean;
            /** The lease before had expired. */
            readonly took_over?: boolean;
            /** The member that had the identity before. */
            readonly taken_from?: string;
            /** When it would have ended, had it never been renewed. */
            readonly expires_at?: components["schemas"]["Time"];
            /** When it ended. If it expired and an event of the next lease is all that tells, it is when that was granted: the lease had ended by then. */
            readonly ended_at?: components["schemas"]["Time"];
            /** How: `released`, `finished`, `failed`, `given up`, `forced`, `expired`, `handed over`, `taken over`, `replaced`, `too late`. Missing if no event says. */
            readonly ended?: string;
            /** Who ended it, if that was not its owner. */
            readonly ended_by?: string;
            /** In the words of who did. */
            readonly reason?: string;
            /** Whose lease could only begin when it had ended. */
            readonly next_owner?: string;
            /** Format: int64 */
            readonly next_token?: number;
            /** The IDs of the events that say so. */
            readonly events: readonly string[];
            /** Of `holders`: false if it was held only if it was renewed until then, or if events are missing or were changed that may have said that it ended. */
            readonly certain?: boolean;
        };
        readonly Health: {
            readonly status: "ok";
            /** Of `/readyz`: what an administrator should know, such as that the store's time is behind what it was. The server is ready all the same. */
            readonly warning?: string;
            readonly unreadable?: components["schemas"]["HealthUnreadable"];
        };
        /** Of `/readyz`: how often this process met documents that cannot be read, in requests and in its own work beside them, since it was started; missing if it met none. Other documents work, so that the server is ready. Its log names the documents. */
        readonly HealthUnreadable: {
            /** A document counts each time. */
            readonly count: number;
            /** That met the last of them, as metrics name it, such as `lock.list` or `sweep.clusters`. */
            readonly operation: string;
            readonly at: components["schemas"]["Time"];
        };
        /**
         * What happened, for programs.
         * 
         */
        readonly Code: "INVALID_ARGUMENT" | "AMBIGUOUS_PATH" | "UNAUTHENTICATED" | "PERMISSION_DENIED" | "NOT_OWNER" | "BAD_SIGNATURE" | "NOT_FOUND" | "UNKNOWN_SERVICE" | "METHOD_NOT_ALLOWED" | "REQUEST_TIMEOUT" | "LOCK_HELD" | "LOCK_NOT_HELD" | "LOCK_MODE_DIFFERS" | "LOCK_QUEUE_FULL" | "LOCK_DELAYED" | "LEASE_LOST" | "LEASE_EXPIRED" | "LEASE_RELEASED" | "LEASE_CHANGED" | "TOO_LATE" | "CURSOR_EXPIRED" | "LOCK_UNREADABLE" | "STALE_TOKEN" | "OTHER_SUBJECT" | "TOPOLOGY_UNDETERMINED" | "NO_ELIGIBLE_MEMBER" | "MEMBER_INELIGIBLE" | "STALE_EPOCH" | "ACTIVATION_EXISTS" | "ACTIVATION_LOCKED" | "ACTIVATION_FAILED" | "WRONG_PHASE" | "STATE_CHANGED" | "MEMBER_EXISTS" | "MEMBER_UNKNOWN" | "STALE_INCARNATION" | "CLUSTER_FULL" | "CLUSTER_DIFFERS" | "ANALYSIS_LOCKED" | "RUN_INTERRUPTED" | "ALREADY_FINISHED" | "NOT_FAILED" | "NOT_READY" | "END_CHANGED" | "RUN_IN_PROGRESS" | "PAYLOAD_TOO_LARGE" | "REQUEST_ID_REUSED" | "RUN_DIFFERS" | "ATTEMPT_FAILED" | "INTERNAL" | "DOCUMENT_DAMAGED" | "NOT_CONFIGURED" | "UNAVAILABLE" | "MACHINE_IDS_EXHAUSTED" | "MACHINE_ID_LIMIT" | "LOCK_LIMIT" | "RUN_LIMIT" | "PLACEMENT_LIMIT" | "RATE_LIMITED" | "OVERLOADED" | "CLOCK_SKEW" | "DEADLINE_EXCEEDED";
        /** A request that was rejected or failed (RFC 9457). */
        readonly Problem: {
            /** Where the code is explained. */
            readonly type: string;
            /** The code in words. */
            readonly title: string;
            readonly status: number;
            readonly code: components["schemas"]["Code"];
            /** Whether the same request may succeed later. */
            readonly retryable: boolean;
            /** What is wrong in this case, and what is allowed. */
            readonly detail?: string;
            /** `urn:request:` and the X-Request-Id of the exchange, by which the server's log names it. */
            readonly instance?: string;
            /** The ID of the trace that the exchange is part of, if it is (W3C Trace Context: `traceparent`). */
            readonly trace_id?: string;
            /** For INVALID_ARGUMENT: the invalid field, or `body`. For TOO_LATE: `not_after`. For NOT_FOUND of an analysis: `analysis_id`, of a run: `run_id`. */
            readonly field?: string;
            /** For commands on several locks: because of which one. */
            readonly lock_key?: string;
            /** For LOCK_HELD: the holder; with several, the one whose lease ends first; with the mode `rate`, who had the latest grant. */
            readonly owner_id?: string;
            /**
             * Format: int64
             * For LOCK_HELD: the caller's place in line, 1 being the next; left out if it has none.
             */
            readonly position?: number;
            /** For rejections of commands on an activation: the activation as it is, as far as it is known, without its state. */
            readonly activation?: components["schemas"]["Activation"];
            /**
             * Format: int64
             * For rejections of placement: the current epoch, if it was read.
             */
            readonly epoch?: number;
            /**
             * Format: int64
             * For MEMBER_EXISTS and STALE_INCARNATION: the current, or latest, incarnation of the member.
             */
            readonly incarnation?: number;
            readonly ineligible?: components["schemas"]["Ineligible"];
            /** For LOCK_HELD, LEASE_CHANGED and MEMBER_EXISTS: when the lease expires. Not with the mode `rate`, where no lease lasts. */
            readonly expires_at?: components["schemas"]["Time"];
            /**
             * Format: int64
             * In milliseconds. For LOCK_HELD, LOCK_QUEUE_FULL, ANALYSIS_LOCKED, MEMBER_EXISTS, CLUSTER_FULL, MACHINE_IDS_EXHAUSTED and MACHINE_ID_LIMIT: until the next lease expires, and of a lock its lock delay has passed, unless its holder extends it; with the mode `rate`, until the next grant is possible. For LOCK_DELAYED: until the lock opens. For ACTIVATION_LOCKED: until the lock phase ends at the latest. For LOCK_LIMIT, RUN_LIMIT and PLACEMENT_LIMIT: until the server counts again what there is. For RATE_LIMITED and OVERLOADED: when to send the request again.
             */
            readonly retry_after_ms?: number;
            /**
             * Format: int64
             * For LOCK_HELD and LOCK_DELAYED of a request with `wait_seconds` whose response was not held for so long: in how many milliseconds to send it again. It says so earlier to who is next in line than to others. A place in line counts until then and a second longer, and what was granted to it is kept.
             */
            readonly poll_after_ms?: number;
            readonly highest_token?: components["schemas"]["FencingToken"];
            /** For TOO_LATE, and for INVALID_ARGUMENT of `not_after`: the store's time, by which ends are judged. */
            readonly store_time?: components["schemas"]["Time"];
        };
    };
}
type WithRequired<T, K extends keyof T> = T & {
    [P in K]-?: T[P];
};
