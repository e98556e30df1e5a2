// Code generated from contracts/openapi.yaml by scripts/generate.mjs. DO NOT EDIT.

export interface paths {
    readonly "/v1/tenants/{tenant_id}/locks/{lock_key}/acquire": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which lock, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly lock_key: components["parameters"]["LockKey"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Acquire the lock
         * Grants the lock if no one holds it, with the next fencing token. If it is held, the response is `LOCK_HELD` with the holder and
         *     the expiry of its lease. A retry returns the same lease while it lasts; after that it is rejected: nothing is acquired twice.
         *
         *     With `mode` the lock is for readers and a writer, has several permits, or a rate. All who ask for a lock must name the same mode, limit and window.
         *
         *     With `wait_seconds` the server waits for a lock that is held, and responds as soon as the caller has it. If it is still held then, the response is
         *     `LOCK_HELD`: send the same request again, with the same `request_id`, to wait on. A server that holds no response for so long responds
         *     earlier, and `poll_after_ms` says when to send the request again. A request that waits in line has a `position`, and keeps its place
         *     for `wait_seconds` and 10 seconds more, not beyond `not_after`; sent again, it keeps it for as long from then on. The place counts while the request is
         *     listened for: while its response is held, or until it is to come again (`poll_after_ms`). Others pass over it afterwards, until it comes again. Where the server holds no response at
         *     all, it has its place when it is sent for the second time, within 10 seconds. With `wait_seconds` 0 it gives its place up, and ends the waits of its earlier deliveries at the server that it reaches:
         *     they obtain nothing afterwards. If one has obtained the lock, the response is its lease. That is no giving up: a copy that is still on its way obtains what is
         *     free. With `give_up` none does. A server that has no room for more requests that wait
         *     responds at once, as with `wait_seconds` 0, but for the place in line and `poll_after_ms`. One that stops ends the wait early, with a `retry_after_ms` of 1: send the
         *     same request again at once, to a server that goes on.
         */
        readonly post: operations["acquireLock"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/locks/{lock_key}/renew": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which lock, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly lock_key: components["parameters"]["LockKey"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Extend the lease
         * Moves the expiry to now + `ttl_seconds`. Only the holder can renew, with its current token and before the lease expires. If a
         *     renewal is rejected, but with `LEASE_CHANGED`, stop the work.
         *
         *     Name the `expires_at` that you know. The lease is then renewed only while it expires at that time, and a delivery that was delayed
         *     can never move the expiry after a later renewal did. Without it, that holds for the last 4 renewals; an earlier one
         *     moves the expiry to the moment of its delivery + `ttl_seconds`.
         */
        readonly post: operations["renewLock"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/locks/{lock_key}/release": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which lock, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly lock_key: components["parameters"]["LockKey"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Release the lock
         * Ends the lease that has this token. A retry with the same `request_id` returns 200 and never affects a later lease. The last 8
         *     releases of a lock are remembered for that.
         */
        readonly post: operations["releaseLock"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/locks/{lock_key}/force-release": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which lock, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly lock_key: components["parameters"]["LockKey"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * End another owner's lease (administrators)
         * For a holder that hangs. It needs the administrator's scope. The reason is stored until the lock is acquired again, and shown to the
         *     holder at its next renewal. With `lease_id` only that lease is ended, never a later one. A retry never ends a later lease.
         *
         *     Of a lock with several holders all leases are ended, unless `lease_id` names one. Who waits in line gets the lock then.
         *
         *     If no lease is held, and no `lease_id` is given, it ends what closes the lock all the same: a lock delay, or the grants of a `rate`, which
         *     are forgotten. The response shows the lease whose delay was ended, or the latest grant.
         */
        readonly post: operations["forceReleaseLock"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/locks/{lock_key}": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which lock, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly lock_key: components["parameters"]["LockKey"];
            };
            readonly cookie?: never;
        };
        /**
         * Read a lock
         * The response never has the fencing token of a lease that lasts: reading gives no right to write.
         */
        readonly get: operations["getLock"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/lock-sets/acquire": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Acquire several locks
         * Grants up to 20 locks of the tenant in one step, all or none, each with the next fencing token of its key. Each becomes an ordinary exclusive
         *     lease. If one of them is held, nothing is changed, and the response names it. No caller waits with some of its locks held, so that callers whose
         *     keys overlap cannot block each other for good; who waits asks again, with the same `request_id`. Where others wait in line for one of the locks,
         *     a request that comes again has its turn after those who were in line before it: then its locks are kept for it for 10 seconds. A retry returns
         *     the same leases while all of them last. With `give_up` all that the request has of the locks ends, in one step.
         */
        readonly post: operations["acquireLocks"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/lock-sets/renew": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Extend several leases
         * Moves the expiry of all of the leases to now + `ttl_seconds`, or of none. If that is rejected, but with `LEASE_CHANGED`, one of them is lost:
         *     stop the work.
         */
        readonly post: operations["renewLocks"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/lock-sets/release": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Release several locks
         * Ends those of the leases that are still held, in one step. If others are not, the response names one of them; the rest are released all the same.
         *     A retry with the same `request_id` has the same response and never affects a later lease.
         */
        readonly post: operations["releaseLocks"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/locks": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
            };
            readonly cookie?: never;
        };
        /**
         * List a tenant's locks
         * By ascending bytes of the key. A page ends at `page_size` or at about 750 kB. One that is filtered can be shorter, even
         *     empty, and still have a `next_page_token`: at most 5000 locks are read for a page. `counts` says how many there were of each kind, also
         *     of those that are not in the page, so that the sum over all pages is exact.
         */
        readonly get: operations["listLocks"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/fences/{resource}": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** What is protected, 1 to 256 bytes without control characters. */
                readonly resource: components["parameters"]["Resource"];
            };
            readonly cookie?: never;
        };
        /**
         * Read the highest token of a resource
         * It lets nothing pass and changes nothing.
         */
        readonly get: operations["getFence"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/fences/{resource}/check": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** What is protected, 1 to 256 bytes without control characters. */
                readonly resource: components["parameters"]["Resource"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Check a fencing token
         * Remembers the highest token that was seen for the resource and rejects every lower one. Where the resource can compare tokens in
         *     the same atomic step as the change itself, do that instead.
         *
         *     A token that lies more than an hour of microseconds ahead of the server's clock is an invalid field: no lock has given it.
         */
        readonly post: operations["checkFence"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/fences/{resource}/reset": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** What is protected, 1 to 256 bytes without control characters. */
                readonly resource: components["parameters"]["Resource"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Forget the highest token of a resource (administrators)
         * For a fence that a wrong token has closed. It needs the administrator's scope. `highest_token` is the one that a `STALE_TOKEN`
         *     showed: the fence is reset only while it is that one, so that a retry resets nothing that came after. Until a current token has been
         *     checked again, old ones pass.
         */
        readonly post: operations["resetFence"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/fences/{resource}/remove": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** What is protected, 1 to 256 bytes without control characters. */
                readonly resource: components["parameters"]["Resource"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Remove the fence of a resource (administrators)
         * For a resource that is gone: its fence counts against the bound of the tenant no more. It needs the administrator's scope. **The highest token is
         *     forgotten:** if the resource is used again, the next token that is checked passes, whichever it is. `highest_token` is what
         *     `GET` shows, or what the fence was reset from: the fence is removed only while it is that one. If there is no fence, nothing is done, and `replayed` is true.
         */
        readonly post: operations["removeFence"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/clusters": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
            };
            readonly cookie?: never;
        };
        /**
         * List a tenant's clusters
         * By ascending bytes of the name, all that members have joined and that were not removed, also those that have no members any more. A page can be shorter than
         *     `page_size`, even empty, and still have a `next_page_token`.
         */
        readonly get: operations["listClusters"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/clusters/{cluster}/remove": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Remove a cluster without members (administrators)
         * The cluster is listed no more, and does not count against the bound of the tenant. It needs the administrator's scope. Members whose leases have ended are
         *     evicted first. **What is remembered of its identities is removed, with their states, and so are its events.** `epoch` is the current one, as `GET …/members` shows it: the cluster is
         *     removed only while it is that one, so that a retry removes nothing that came after. A join sets the cluster up again, with higher epochs, incarnations and
         *     fencing tokens than it ever had. Sweeps remove clusters that had neither members nor identities for the retention.
         *
         *     A large cluster takes longer than a request may: send it again, or leave the rest to sweeps.
         */
        readonly post: operations["removeCluster"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/clusters/{cluster}/members/{member}/join": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /**
                 * The name of the member, 1 to 128 bytes without control characters. With authentication it is 1 to 64 letters, digits, ".", "_" and
                 *     "-" after the token's subject, giving "subject#name", or that whole name, with "#" as `%23`.
                 */
                readonly member: components["parameters"]["Member"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Join the cluster, as a new incarnation
         * Makes a member whose lease lasts from now for `ttl_seconds`: send heartbeats to extend it. The first member of a cluster makes the
         *     cluster, with this number of partitions. While an incarnation of this name lives, the join is rejected: give each process a name of
         *     its own. One whose lease has ended is evicted by the join.
         *
         *     After `not_after` it makes no member. An earlier delivery that made one is returned then, too: so a member
         *     that gave up a join learns of it by the same request with an end in the past, and leaves.
         *
         *     The member belongs to the subject that joined it; with authentication its name begins with the subject.
         */
        readonly post: operations["joinCluster"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/clusters/{cluster}/members/{member}/replace": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /**
                 * The name of the member, 1 to 128 bytes without control characters. With authentication it is 1 to 64 letters, digits, ".", "_" and
                 *     "-" after the token's subject, giving "subject#name", or that whole name, with "#" as `%23`.
                 */
                readonly member: components["parameters"]["Member"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Join the cluster in the place of another member
         * For rolling deployments: the new member takes over the partitions of the other, all and no others, in one epoch, and the other drains
         *     from then on. Otherwise it is a join. Both members belong to the subject that calls. After `not_after` no one
         *     joins, and the other does not drain.
         */
        readonly post: operations["replaceMember"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/clusters/{cluster}/members/{member}/heartbeat": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /**
                 * The name of the member, 1 to 128 bytes without control characters. With authentication it is 1 to 64 letters, digits, ".", "_" and
                 *     "-" after the token's subject, giving "subject#name", or that whole name, with "#" as `%23`.
                 */
                readonly member: components["parameters"]["Member"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Extend a member's lease
         * The lease lasts from now for `ttl_seconds`. `seq` is 1 for the first heartbeat of an incarnation and one more for each: one that arrives
         *     after a later one changes nothing. A member stops what it serves when its lease has ended, counted from before it sent the heartbeat.
         *     After `STALE_INCARNATION` it stops at once, and joins again. While `status` is `DRAINING` it hands over what it serves.
         */
        readonly post: operations["heartbeatMember"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/clusters/{cluster}/members/{member}/drain": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /**
                 * The name of the member, 1 to 128 bytes without control characters. With authentication it is 1 to 64 letters, digits, ".", "_" and
                 *     "-" after the token's subject, giving "subject#name", or that whole name, with "#" as `%23`.
                 */
                readonly member: components["parameters"]["Member"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Give a member no new activations
         * Its partitions go to the others, in a new epoch. It keeps the activations that it has, until it ends or transfers them: its next
         *     heartbeat tells it to. Repeating it changes nothing.
         */
        readonly post: operations["drainMember"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/clusters/{cluster}/members/{member}/leave": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /**
                 * The name of the member, 1 to 128 bytes without control characters. With authentication it is 1 to 64 letters, digits, ".", "_" and
                 *     "-" after the token's subject, giving "subject#name", or that whole name, with "#" as `%23`.
                 */
                readonly member: components["parameters"]["Member"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * End a member
         * Its activations are free for others from then on, so a member leaves when it serves nothing any more. Repeating it changes nothing.
         */
        readonly post: operations["leaveCluster"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/clusters/{cluster}/members/{member}/evict": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /**
                 * The name of the member, 1 to 128 bytes without control characters. With authentication it is 1 to 64 letters, digits, ".", "_" and
                 *     "-" after the token's subject, giving "subject#name", or that whole name, with "#" as `%23`.
                 */
                readonly member: components["parameters"]["Member"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * End another's member (administrators)
         * For a member that hangs and still sends heartbeats. It needs the administrator's scope. Members whose leases have ended are evicted
         *     without it. The member learns of it with its next heartbeat; what it writes in between is fenced by the tokens. Repeating it changes
         *     nothing.
         */
        readonly post: operations["evictMember"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/clusters/{cluster}/members/{member}/offer": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /**
                 * The name of the member, 1 to 128 bytes without control characters. With authentication it is 1 to 64 letters, digits, ".", "_" and
                 *     "-" after the token's subject, giving "subject#name", or that whole name, with "#" as `%23`.
                 */
                readonly member: components["parameters"]["Member"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Change what a member offers
         * Kinds, labels, weight, and whether it is full, from a new epoch on. What is left out is not offered any more, but for the address, which
         *     stays as it is.
         */
        readonly post: operations["changeOffer"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/clusters/{cluster}/members": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
            };
            readonly cookie?: never;
        };
        /**
         * The members of the current epoch
         * In the order of their names. A cluster that never had a member has none. A member whose lease has just ended is shown until someone
         *     needs to know: a claim, a lookup or a sweep evicts it.
         *
         *     The members of an epoch never change. Keep the `ETag` and send it as `If-None-Match`: the response is 304 while the epoch is the current one.
         *     Send `since` and `changed_at`, the `epoch` and `changed_at` of the list that you have: a response that has `since`
         *     says what changed since then, to be applied to that list. One without `since` is the whole list.
         *     With `Accept-Encoding: gzip` a long response is a tenth as long.
         */
        readonly get: operations["listMembers"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/clusters/{cluster}/topology": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
            };
            readonly cookie?: never;
        };
        /**
         * The current epoch, or an earlier one, with its members and which partition is whose
         * With it a caller places identities without further requests: the partition of an identity is given by its hash, whose version is
         *     `hash_version`, and `table` names the member of each partition by its index in `members`, -1 for none. It can be read in every state; while
         *     `status` is `UNDETERMINED`, nothing can be placed.
         *
         *     An epoch never changes. Keep the `ETag` and send it as `If-None-Match`: the response is 304 while the epoch is the current one.
         */
        readonly get: operations["getTopology"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/clusters/{cluster}/placements/{kind}/{id}": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /** The kind of the identity: 1 to 64 letters, digits, ".", "_" and "-". */
                readonly kind: components["parameters"]["Kind"];
                /** The ID of the identity, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly id: components["parameters"]["IdentityID"];
            };
            readonly cookie?: never;
        };
        /**
         * Where an identity is, or would be
         * `owner` is the member that has the activation: go there. Without it, a claim makes `placed` the owner. It is read from the store, and a
         *     member on which the result depends and whose lease has ended is evicted on the way.
         */
        readonly get: operations["lookupPlacement"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/clusters/{cluster}/activations/{kind}/{id}/claim": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /** The kind of the identity: 1 to 64 letters, digits, ".", "_" and "-". */
                readonly kind: components["parameters"]["Kind"];
                /** The ID of the identity, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly id: components["parameters"]["IdentityID"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Ask for the activation of an identity
         * Without `member`, the member on which the identity is placed becomes the owner, `LOCKED`, and is to activate it within `lock_ttl_seconds`;
         *     anyone may ask. When the lease of the owner ends, so does the lock. With `member` and `incarnation` a member claims for itself, and gets the activation if the identity is placed on it: `ACTIVE` at
         *     once, or with `lock_ttl_seconds` `LOCKED` first.
         *
         *     An activation that exists is not moved: `ACTIVATION_EXISTS` says where it is. The token is higher than all before: send it along with
         *     everything that the owner does to other systems. A retry returns the same activation while it lasts. After
         *     `not_after` nothing is claimed.
         */
        readonly post: operations["claimActivation"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/clusters/{cluster}/activations/{kind}/{id}/activated": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /** The kind of the identity: 1 to 64 letters, digits, ".", "_" and "-". */
                readonly kind: components["parameters"]["Kind"];
                /** The ID of the identity, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly id: components["parameters"]["IdentityID"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * The owner serves the identity from now on
         * Ends the lock phase, also when it has expired, as long as no other claim was granted. Repeating it changes nothing.
         */
        readonly post: operations["activated"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/clusters/{cluster}/activations/{kind}/{id}/failed": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /** The kind of the identity: 1 to 64 letters, digits, ".", "_" and "-". */
                readonly kind: components["parameters"]["Kind"];
                /** The ID of the identity, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly id: components["parameters"]["IdentityID"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * The owner could not activate the identity
         * Ends the lock phase: the identity is free, and the reason stays for those who ask. Repeating it changes nothing.
         */
        readonly post: operations["activationFailed"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/clusters/{cluster}/activations/{kind}/{id}/deactivate": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /** The kind of the identity: 1 to 64 letters, digits, ".", "_" and "-". */
                readonly kind: components["parameters"]["Kind"];
                /** The ID of the identity, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly id: components["parameters"]["IdentityID"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * End an activation
         * The identity is free and keeps its state. Repeating it changes nothing.
         */
        readonly post: operations["deactivate"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/clusters/{cluster}/activations/{kind}/{id}/state": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /** The kind of the identity: 1 to 64 letters, digits, ".", "_" and "-". */
                readonly kind: components["parameters"]["Kind"];
                /** The ID of the identity, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly id: components["parameters"]["IdentityID"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Replace the state of an activation
         * 32 KiB at most, in the same step that makes sure of the owner: a process that lost the identity cannot write any more. `state_version` is
         *     that of the state which this one replaces, 0 if there is none. The state survives failures, takeovers and transfers.
         */
        readonly post: operations["writeState"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/clusters/{cluster}/activations/{kind}/{id}/transfer": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /** The kind of the identity: 1 to 64 letters, digits, ".", "_" and "-". */
                readonly kind: components["parameters"]["Kind"];
                /** The ID of the identity, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly id: components["parameters"]["IdentityID"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Give an activation to another member
         * The owner hands it over in one step: `to`, or the member on which the identity is placed, becomes the owner, `LOCKED`, with a higher token,
         *     and is to activate it. Without `labels` and `prefer`, those of the claim count. After `not_after` it stays
         *     where it is.
         */
        readonly post: operations["transferActivation"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/clusters/{cluster}/activations/{kind}/{id}": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /** The kind of the identity: 1 to 64 letters, digits, ".", "_" and "-". */
                readonly kind: components["parameters"]["Kind"];
                /** The ID of the identity, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly id: components["parameters"]["IdentityID"];
            };
            readonly cookie?: never;
        };
        /**
         * Read an activation
         * In every state of the cluster, with the state that its owners stored. A member that is told of a claim, by the claimant or by an event,
         *     finds its token here.
         */
        readonly get: operations["getActivation"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/clusters/{cluster}/activations": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
            };
            readonly cookie?: never;
        };
        /**
         * List the activations of a cluster
         * In the order of kind and ID, without their states. Together with the status and the epoch of the cluster, in every state of it.
         */
        readonly get: operations["listActivations"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/clusters/{cluster}/events": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
            };
            readonly cookie?: never;
        };
        /**
         * Follow what changes in a cluster
         * Every change of a member or an activation has an event, which is kept for a day. Send `next` of the response as `after` of the next
         *     request: you miss none, however late it was written, and see each within about a second. The order is that of time but for the last ten
         *     seconds. An event of those can be shown again, together with one that appeared late: leave out every `event_id` that you have seen.
         *
         *     With `member` only events that this member needs are shown: what became of it and of its activations, and who took one from it. Send the
         *     same `member` with each `next`. A place before the events that are kept is `CURSOR_EXPIRED`.
         *
         *     With `wait_seconds` the response waits until there is something new. It comes earlier, with no events, when the server stops, or holds no
         *     response for so long: then `poll_after_ms` says when to ask again.
         */
        readonly get: operations["listEvents"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/machine-ids/lease": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Lease machine IDs
         * Leases as many machine IDs as the throughput needs, in one step. A lease is the right to make IDs of its machine ID with the
         *     timestamps from `created` up to, and without, `expired`, whatever any clock says. There is no renewal: request a new lease before
         *     this one expires. Callers that authenticate need the scope for machine IDs (`leasehold:ids` unless the server is set up otherwise).
         *
         *     If some are free, but fewer than needed, the response has one lease. There is no `request_id`: leases whose response was lost
         *     expire. After `notAfter` nothing is leased.
         */
        readonly post: operations["leaseMachineIDs"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/machine-ids/lease/{id}": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** The machine ID, a whole number in decimal. */
                readonly id: number;
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        readonly post?: never;
        /**
         * Release a machine ID before its lease expires
         * The signature is HMAC-SHA256 under the lease's secret of `id:timestamp`, both in decimal, as hexadecimal digits. The timestamp must
         *     be within 30 s of the server's time, and the holder makes no ID after it. A retry, or the release of an expired lease, is 204 too;
         *     `BAD_SIGNATURE` if another process has leased the machine ID since.
         */
        readonly delete: operations["releaseMachineID"];
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/machine-ids/force-release": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * End leases whose holders are gone (administrators)
         * Ends the leases of a service, or those of a range of its machine IDs. They become free after 30 seconds, or when they expire, whichever is
         *     earlier: the clock of a holder may have been ahead. Stop the holders first: one that goes on makes IDs that may equal those of
         *     the next holder. It needs the administrator's scope. Retries are idempotent. The reason is written to the server's log.
         */
        readonly post: operations["forceReleaseMachineIDs"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/machine-ids": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /**
         * Read how many machine IDs are leased
         * It reads all pages of every namespace, and shows no holder and no secret.
         */
        readonly get: operations["machineIDOccupancy"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/machine-ids/spaces/{space}": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** The namespace, 1 to 128 bytes without control characters. */
                readonly space: string;
            };
            readonly cookie?: never;
        };
        /**
         * Read which machine IDs of a namespace are leased
         * It reads all pages of the namespace in one request to the store, and shows no holder and no secret.
         */
        readonly get: operations["machineIDMap"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/analyses/{analysis_id}/lock": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** The ID of the analysis' document, 1 to 256 bytes without control characters and "/". */
                readonly analysis_id: components["parameters"]["AnalysisID"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Request the run of an analysis
         * Grants the run of an unfinished analysis that no worker runs, or whose lock has expired, with the next token. A run that is not
         *     granted is no error: the response is 200 with `"acquired": false` and a `reason`. A retry with the same `owner_id` and
         *     `request_id` returns the same lock as long as that lasts; afterwards, and with another `ttl_seconds`, it is `REQUEST_ID_REUSED`
         *     as long as the analysis remembers it (its last four locks). Instead of a run beyond the bound on takeovers, or on `max_failures`,
         *     the analysis becomes FAILED. Make up a `request_id` for each attempt: with the name of a message that a queue delivers
         *     twice, two workers would both have the lock.
         *
         *     With `give_up`, the lock of this request ends as if it had never been: it counts neither as a takeover nor as a
         *     failed run. The analysis remembers that the request was given up until it has remembered three others. An
         *     analysis that does not exist is not made, and remembers nothing.
         */
        readonly post: operations["lockAnalysis"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/analyses/{analysis_id}/refresh": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** The ID of the analysis' document, 1 to 256 bytes without control characters and "/". */
                readonly analysis_id: components["parameters"]["AnalysisID"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Extend the lock of a run
         * Moves the lock's expiry to now + `ttl_seconds`. Send it every 60 to 120 seconds of a lock of 300. If it is rejected, stop the work.
         */
        readonly post: operations["refreshAnalysis"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/analyses/{analysis_id}/release": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** The ID of the analysis' document, 1 to 256 bytes without control characters and "/". */
                readonly analysis_id: components["parameters"]["AnalysisID"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * End a run without finishing the analysis
         * Leaves the analysis unfinished and free for the next run. With `failure_reason` the run counts as failed. A retry returns 200 and
         *     counts once; one with another reason is not counted, and is `LEASE_RELEASED` or `ALREADY_FINISHED`. If the release fails, the lock expires: worth a warning, nothing more.
         */
        readonly post: operations["releaseAnalysis"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/analyses/{analysis_id}/finish": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** The ID of the analysis' document, 1 to 256 bytes without control characters and "/". */
                readonly analysis_id: components["parameters"]["AnalysisID"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Finish the analysis
         * Writes READY or FAILED and removes the lock in the same step, only while owner and token are those of the current lock. A worker
         *     that lost the lock can neither finish nor fail another worker's run. A retry returns 200; one with another result is
         *     `ALREADY_FINISHED`, and the first result stays.
         */
        readonly post: operations["finishAnalysis"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/analyses/{analysis_id}/retry": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** The ID of the analysis' document, 1 to 256 bytes without control characters and "/". */
                readonly analysis_id: components["parameters"]["AnalysisID"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Let a FAILED analysis run again (administrators)
         * For when the cause of the failures is gone. It needs the administrator's scope. The analysis becomes PENDING, its failures and
         *     takeovers are counted from 0 again, and its fencing token increases, so that nothing of an earlier run is accepted any more. A
         *     sweep queues it. The last four retries of an analysis are remembered: one that arrives again returns 200 with `replayed`
         *     and has no second effect, also after the analysis has failed again. With `finished_at` that holds however late it arrives.
         */
        readonly post: operations["retryAnalysis"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/analyses": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /**
         * List analyses
         * By ascending bytes of the ID. A page ends at `page_size` or at about 0.75 MB of documents. It can be shorter, even empty, and
         *     still have a `next_page_token`: ask until there is none. Documents that cannot be read are listed by themselves, in `unreadable`,
         *     whatever `status` says; they do not count as errors of the page. At most 5000 are read for a page; `counts` says how many there were
         *     in each state, also of those that are not in the page.
         */
        readonly get: operations["listAnalyses"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/analyses/{analysis_id}": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** The ID of the analysis' document, 1 to 256 bytes without control characters and "/". */
                readonly analysis_id: components["parameters"]["AnalysisID"];
            };
            readonly cookie?: never;
        };
        /**
         * Read an analysis
         * The response never has the token: reading gives no right to write.
         */
        readonly get: operations["getAnalysis"];
        /**
         * Create the document of an analysis if it does not exist
         * For callers that keep no such documents themselves. A new document has the status PENDING; an existing one is not changed. A retry
         *     changes nothing. The request has no body.
         */
        readonly put: operations["createAnalysis"];
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/runs/{run_id}/begin": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** The name of the run, 1 to 256 bytes without control characters and "/". */
                readonly run_id: components["parameters"]["RunID"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Begin a run, or get the result of an earlier one
         * Grants the run to one caller, until it finishes it, releases it or its lock expires. A run that is not known is made: no one has to
         *     create it before. A run that is not granted is no error: the response is 200 with `"acquired": false` and a `reason`, and with
         *     `already_finished` the `result` that the earlier run stored. With a `fingerprint`, the ID cannot be used for something else:
         *     `RUN_DIFFERS`. A retry with the same `owner_id` and `request_id` returns the same lock as long as that lasts. `keep_seconds`
         *     after the run has ended, or the lock of one that never did, the ID is a new one: its record counts as none, and is
         *     removed at some time.
         *
         *     With `give_up`, the lock of this request ends as if it had never been: it counts neither as a takeover nor as a
         *     failed run. That the request was given up is remembered with the record until three others are, and for an hour
         *     where there is no such run; none is made.
         */
        readonly post: operations["beginRun"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/runs/{run_id}/refresh": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** The name of the run, 1 to 256 bytes without control characters and "/". */
                readonly run_id: components["parameters"]["RunID"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Extend the lock of a run
         * Moves the lock's expiry to now + `ttl_seconds`. Send it every fifth of the lock's time. If it is rejected, stop the work.
         */
        readonly post: operations["refreshRun"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/runs/{run_id}/release": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** The name of the run, 1 to 256 bytes without control characters and "/". */
                readonly run_id: components["parameters"]["RunID"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * End a run without a result
         * Leaves the run free for the next caller that begins it, with the same `fingerprint`. With `failure_reason` it counts as failed.
         */
        readonly post: operations["releaseRun"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/runs/{run_id}/finish": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** The name of the run, 1 to 256 bytes without control characters and "/". */
                readonly run_id: components["parameters"]["RunID"];
            };
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Finish a run, with its result
         * Writes READY or FAILED and removes the lock in the same step, only while owner and token are those of the current lock. A caller that begins
         *     the run later gets the `result`. A retry returns 200; one with another result is `ALREADY_FINISHED`, and the first result stays.
         */
        readonly post: operations["finishRun"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/runs": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
            };
            readonly cookie?: never;
        };
        /**
         * List a tenant's runs
         * By ascending bytes of the name, without results. A page ends at `page_size` or at about 750 kB; one that is filtered can be shorter,
         *     even empty, and still have a `next_page_token`. Documents that the server cannot read are in `unreadable`. At most 5000 are read for a
         *     page; `counts` says how many there were in each state, also of those that are not in the page.
         */
        readonly get: operations["listRuns"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/tenants/{tenant_id}/runs/{run_id}": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** The name of the run, 1 to 256 bytes without control characters and "/". */
                readonly run_id: components["parameters"]["RunID"];
            };
            readonly cookie?: never;
        };
        /**
         * Read a run
         * The response never has the token: reading gives no right to write.
         */
        readonly get: operations["getRun"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/caller": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /**
         * Who the server takes the caller for
         * Asks nothing of the store. The console begins with it.
         */
        readonly get: operations["getCaller"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/history": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /**
         * Who had something, from the audit file of this server (administrators)
         * Who had a lock, a run, an analysis, a machine ID or an identity of placement at a time, or the latest 100 leases of it. It needs the
         *     administrator's scope, and what has a tenant must be of the administrator's. The answer is read from the file of `LEASEHOLD_AUDIT_LOG` and those
         *     that it was rotated to, `FILE.1` or `FILE-20260101`, also with `.gz`: the newest first, 64 MiB in all, uncompressed. Other servers have files of their own, if they do not
         *     write to the same; `leasehold audit` reads several. It asks nothing of the store. One request at a time reads; others wait.
         */
        readonly get: operations["getHistory"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/v1/outcomes": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /**
         * How the last requests to this process ended (administrators)
         * The newest first. It needs the administrator's scope, and shows what callers of the administrator's tenant asked for. One process remembers its
         *     own last requests, in memory, and only if it serves the console: of each tenant 1024 that were rejected or failed, and 1024 commands that were
         *     carried out; of all tenants together 4096 of each, and of 256 tenants. Beyond that the tenant with the most loses its oldest first, so that none
         *     takes those of another away. Requests of callers that could not be identified, the last 64, are shown to those only who see all tenants.
         *     Reads, renewals, refreshes, heartbeats and checks of fences are remembered only if they were rejected. The audit events of all processes are in
         *     their logs.
         *     It asks nothing of the store.
         */
        readonly get: operations["listOutcomes"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/healthz": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Is the process alive? */
        readonly get: operations["healthz"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/readyz": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /**
         * Can the server serve, that is, can it write to the store?
         * Writes a small document to the store. Requests within two seconds share one result, so that a process sends 30 such writes a
         *     minute at most. While writes fail, as on a full disk, the
         *     response is `UNAVAILABLE` with the kind of failure in `detail`; the server's log has the rest. So it is while the server is about to stop
         *     and still serves.
         */
        readonly get: operations["readyz"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/openapi.yaml": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** This document as YAML */
        readonly get: operations["openapiYAML"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/openapi.json": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** This document as JSON */
        readonly get: operations["openapiJSON"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
}
export type webhooks = Record<string, never>;
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
        };
        /**
         * Who runs the analysis. In development mode it is required. With authentication the owner is the token's subject; a value here is
         *     a suffix of 1 to 64 letters, digits, ".", "_" and "-" that tells instances of one subject apart, giving "subject#suffix", or
         *     that whole name as a grant returned it.
         */
        readonly AnalysisOwnerID: string;
        /**
         * Format: int64
         * How long the lock lasts from now, in whole seconds.
         * @default 300
         */
        readonly AnalysisTTLSeconds: number;
        /** Why the run failed, in up to 1024 bytes. Stored in the document. */
        readonly FailureReason: string;
        readonly AnalysisLockRequest: {
            readonly owner_id?: components["schemas"]["AnalysisOwnerID"];
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
            readonly owner_id?: components["schemas"]["AnalysisOwnerID"];
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly ttl_seconds?: components["schemas"]["AnalysisTTLSeconds"];
        };
        readonly AnalysisReleaseRequest: {
            readonly owner_id?: components["schemas"]["AnalysisOwnerID"];
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly failure_reason?: components["schemas"]["FailureReason"];
        };
        readonly AnalysisFinishRequest: {
            readonly owner_id?: components["schemas"]["AnalysisOwnerID"];
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly status: components["schemas"]["AnalysisEnd"];
            /** With READY, the result or where it is, in up to 32 KiB. Left out, the document's is not changed. */
            readonly result?: string;
            readonly failure_reason?: components["schemas"]["FailureReason"];
        };
        /**
         * How an analysis ended. Any other status, or none, is unfinished.
         * 
         */
        readonly AnalysisEnd: "READY" | "FAILED";
        /**
         * Why a run was not granted.
         * 
         */
        readonly AnalysisSkip: "already_finished" | "locked";
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
            readonly reason: components["schemas"]["AnalysisSkip"];
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
            readonly status: components["schemas"]["AnalysisEnd"];
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
            readonly retry?: components["schemas"]["AnalysisRetry"];
        };
        /** How an administrator let the FAILED analysis run again, the last time. */
        readonly AnalysisRetry: {
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
            readonly retry?: components["schemas"]["AnalysisRetry"];
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
            readonly owner_id?: components["schemas"]["AnalysisOwnerID"];
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
            readonly keep_seconds?: components["schemas"]["RunKeepSeconds"];
            readonly not_after?: components["schemas"]["NotAfter"];
            readonly give_up?: components["schemas"]["GiveUp"];
        };
        readonly RunRefreshRequest: {
            readonly owner_id?: components["schemas"]["AnalysisOwnerID"];
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly ttl_seconds?: components["schemas"]["RunTTLSeconds"];
            readonly keep_seconds?: components["schemas"]["RunKeepSeconds"];
        };
        readonly RunReleaseRequest: {
            readonly owner_id?: components["schemas"]["AnalysisOwnerID"];
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly failure_reason?: components["schemas"]["FailureReason"];
            readonly keep_seconds?: components["schemas"]["RunKeepSeconds"];
        };
        readonly RunFinishRequest: {
            readonly owner_id?: components["schemas"]["AnalysisOwnerID"];
            readonly fencing_token: components["schemas"]["FencingToken"];
            readonly status: components["schemas"]["AnalysisEnd"];
            /** With READY, the result, in up to 32 KiB. Callers that begin the run later get it. */
            readonly result?: string;
            readonly failure_reason?: components["schemas"]["FailureReason"];
            readonly keep_seconds?: components["schemas"]["RunKeepSeconds"];
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
            readonly reason: components["schemas"]["AnalysisSkip"];
            /** With `already_finished`: how it ended. */
            readonly status?: components["schemas"]["AnalysisEnd"];
            /** With READY: what was stored; missing if nothing was. */
            readonly result?: string;
            /** With FAILED: why. */
            readonly failure_reason?: string;
            readonly owner_id?: string;
            readonly expires_at?: components["schemas"]["Time"];
            /** With `locked`: until the lock expires, unless its holder refreshes it. */
            readonly retry_after_ms?: components["schemas"]["Milliseconds"];
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
            readonly status: components["schemas"]["AnalysisEnd"];
            readonly replayed: boolean;
        };
        /** A run, as every caller of its tenant may see it. */
        readonly Run: {
            readonly run_id: string;
            /** How it ended; missing if it has not. */
            readonly status?: components["schemas"]["AnalysisEnd"];
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
        };
        readonly FencePassed: {
            readonly tenant_id: string;
            readonly resource: string;
            readonly fencing_token: components["schemas"]["FencingToken"];
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
        };
        readonly ActivationOutcome: {
            readonly activation: components["schemas"]["Activation"];
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
        /** A change of a member, or of an activation if there is a `kind`. */
        readonly PlacementEvent: {
            /** Unique, and in the order of time but for the last ten seconds. */
            readonly event_id: string;
            readonly at: components["schemas"]["Time"];
            /** The member, or the owner of the activation. */
            readonly member: string;
            readonly incarnation: components["schemas"]["IncarnationNumber"];
            readonly kind?: string;
            readonly id?: string;
            /** A status or phase; missing where the change does not depend on it. */
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
            /** Whether the caller may end leases of others, retry analyses, reset fences and read outcomes. */
            readonly administrator: boolean;
            /** Whether the caller may run analyses. */
            readonly worker: boolean;
            /** Whether the caller may lease machine IDs. */
            readonly machine_ids: boolean;
            /** Whether callers name themselves and have all rights. */
            readonly development: boolean;
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
            /** Of `holders`: false if it was held only if it was renewed until then. */
            readonly certain?: boolean;
        };
        readonly Health: {
            readonly status: "ok";
            /** Of `/healthz`: the release that runs, or what Go made up for a build of a clone. */
            readonly version?: string;
            /** Of `/healthz`: the commit that it was built from, if that is known. */
            readonly commit?: string;
            /** Of `/readyz`: what an administrator should know, such as that the store's time is behind what it was. The server is ready all the same. */
            readonly warning?: string;
        };
        /**
         * What happened, for programs.
         * 
         */
        readonly Code: "INVALID_ARGUMENT" | "AMBIGUOUS_PATH" | "UNAUTHENTICATED" | "PERMISSION_DENIED" | "NOT_OWNER" | "BAD_SIGNATURE" | "NOT_FOUND" | "UNKNOWN_SERVICE" | "METHOD_NOT_ALLOWED" | "REQUEST_TIMEOUT" | "LOCK_HELD" | "LOCK_NOT_HELD" | "LOCK_MODE_DIFFERS" | "LOCK_QUEUE_FULL" | "LOCK_DELAYED" | "LEASE_LOST" | "LEASE_EXPIRED" | "LEASE_RELEASED" | "LEASE_CHANGED" | "TOO_LATE" | "CURSOR_EXPIRED" | "LOCK_UNREADABLE" | "STALE_TOKEN" | "TOPOLOGY_UNDETERMINED" | "NO_ELIGIBLE_MEMBER" | "MEMBER_INELIGIBLE" | "STALE_EPOCH" | "ACTIVATION_EXISTS" | "ACTIVATION_LOCKED" | "ACTIVATION_FAILED" | "WRONG_PHASE" | "STATE_CHANGED" | "MEMBER_EXISTS" | "MEMBER_UNKNOWN" | "STALE_INCARNATION" | "CLUSTER_FULL" | "CLUSTER_DIFFERS" | "ANALYSIS_LOCKED" | "RUN_INTERRUPTED" | "ALREADY_FINISHED" | "ANALYSIS_NOT_FAILED" | "ANALYSIS_CHANGED" | "PAYLOAD_TOO_LARGE" | "REQUEST_ID_REUSED" | "RUN_DIFFERS" | "ATTEMPT_FAILED" | "INTERNAL" | "DOCUMENT_DAMAGED" | "NOT_CONFIGURED" | "UNAVAILABLE" | "MACHINE_IDS_EXHAUSTED" | "MACHINE_ID_LIMIT" | "LOCK_LIMIT" | "RUN_LIMIT" | "PLACEMENT_LIMIT" | "RATE_LIMITED" | "OVERLOADED" | "CLOCK_SKEW" | "DEADLINE_EXCEEDED";
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
    responses: {
        /** `INVALID_ARGUMENT`: `field` names the invalid field, `detail` says what is allowed. `AMBIGUOUS_PATH`: the path did not arrive as it was sent. Nothing was changed. */
        readonly BadRequest: {
            headers: {
                readonly "X-Request-Id": components["headers"]["RequestID"];
                readonly [name: string]: unknown;
            };
            content: {
                readonly "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** `UNAUTHENTICATED`: no token, or one that this server does not accept. */
        readonly Unauthenticated: {
            headers: {
                /** What the server accepts. */
                readonly "WWW-Authenticate"?: string;
                readonly "X-Request-Id": components["headers"]["RequestID"];
                readonly [name: string]: unknown;
            };
            content: {
                readonly "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** `PERMISSION_DENIED`: another tenant, or the administrator's or worker's scope is missing. `NOT_OWNER`: the lease belongs to another owner. */
        readonly Forbidden: {
            headers: {
                readonly "X-Request-Id": components["headers"]["RequestID"];
                readonly [name: string]: unknown;
            };
            content: {
                readonly "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** `REQUEST_TIMEOUT`: the body did not arrive in time. Nothing was done. */
        readonly TooSlow: {
            headers: {
                readonly "X-Request-Id": components["headers"]["RequestID"];
                readonly [name: string]: unknown;
            };
            content: {
                readonly "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** `PAYLOAD_TOO_LARGE`: the body has more than 64 KiB; that of a finish, more than 256 KiB. */
        readonly TooLarge: {
            headers: {
                readonly "X-Request-Id": components["headers"]["RequestID"];
                readonly [name: string]: unknown;
            };
            content: {
                readonly "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * The caller no longer holds the lease: `LEASE_LOST` (a later one was granted), `LEASE_EXPIRED`, or `LEASE_RELEASED` (released, or
         *     ended by an administrator). Stop the work that it protected. `LOCK_MODE_DIFFERS`: the token is of the mode `rate`, whose grants are
         *     not held.
         */
        readonly LeaseGone: {
            headers: {
                readonly "X-Request-Id": components["headers"]["RequestID"];
                readonly [name: string]: unknown;
            };
            content: {
                readonly "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * `LEASE_CHANGED`: the lease does not expire at the `expires_at` that was named, because another renewal was carried out; it is still
         *     held, until the `expires_at` of this response. Send the renewal again with that time.
         *
         *     Otherwise the caller no longer holds the lease: `LEASE_LOST` (a later one was granted), `LEASE_EXPIRED`, or `LEASE_RELEASED`
         *     (released, or ended by an administrator). Stop the work that it protected. `LOCK_MODE_DIFFERS`: the token is of the mode `rate`, whose
         *     grants are not held.
         */
        readonly NotRenewed: {
            headers: {
                readonly "X-Request-Id": components["headers"]["RequestID"];
                readonly [name: string]: unknown;
            };
            content: {
                readonly "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** `NOT_FOUND` with the field `analysis_id`: there is no document of this analysis. Leasehold never creates it on its own; the producer does. */
        readonly NoSuchAnalysis: {
            headers: {
                readonly "X-Request-Id": components["headers"]["RequestID"];
                readonly [name: string]: unknown;
            };
            content: {
                readonly "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** `NOT_FOUND` with the field `run_id`: no one has begun this run, or its record has been removed. */
        readonly NoSuchRun: {
            headers: {
                readonly "X-Request-Id": components["headers"]["RequestID"];
                readonly [name: string]: unknown;
            };
            content: {
                readonly "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * The caller no longer holds the lock: `LEASE_LOST` (another worker took over), `LEASE_EXPIRED`, `LEASE_RELEASED`, or
         *     `ALREADY_FINISHED`. Stop the work.
         */
        readonly AnalysisLockGone: {
            headers: {
                readonly "X-Request-Id": components["headers"]["RequestID"];
                readonly [name: string]: unknown;
            };
            content: {
                readonly "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** `REQUEST_ID_REUSED`: this `request_id` was used with other parameters, or the lease that it obtained has ended. */
        readonly RequestIDReused: {
            headers: {
                readonly "X-Request-Id": components["headers"]["RequestID"];
                readonly [name: string]: unknown;
            };
            content: {
                readonly "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** `TOO_LATE`: `notAfter` had passed when the request came to the store; nothing was leased. */
        readonly TooLate: {
            headers: {
                readonly "X-Request-Id": components["headers"]["RequestID"];
                readonly [name: string]: unknown;
            };
            content: {
                readonly "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** `UNKNOWN_SERVICE`: the `serviceId` is not configured on this server, which serves configured services only. */
        readonly UnknownService: {
            headers: {
                readonly "X-Request-Id": components["headers"]["RequestID"];
                readonly [name: string]: unknown;
            };
            content: {
                readonly "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** `INTERNAL`: a fault of the server. `DOCUMENT_DAMAGED`: a stored document cannot be read. The log has the details under the request's ID. */
        readonly Internal: {
            headers: {
                readonly "X-Request-Id": components["headers"]["RequestID"];
                readonly [name: string]: unknown;
            };
            content: {
                readonly "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** `RATE_LIMITED`: the caller's tenant or subject sends too many requests. Nothing was done; `retry_after_ms` says when to try again. */
        readonly RateLimited: {
            headers: {
                readonly "Retry-After": components["headers"]["RetryAfter"];
                readonly "X-Request-Id": components["headers"]["RequestID"];
                readonly [name: string]: unknown;
            };
            content: {
                readonly "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * `LOCK_LIMIT`: the tenant has as many locks, or fences, as this server allows; this one would be another. Nothing was done.
         *     `RATE_LIMITED`: the caller's tenant or subject sends too many requests. Nothing was done; `retry_after_ms` says when to try again.
         */
        readonly TooManyLocks: {
            headers: {
                readonly "Retry-After": components["headers"]["RetryAfter"];
                readonly "X-Request-Id": components["headers"]["RequestID"];
                readonly [name: string]: unknown;
            };
            content: {
                readonly "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * `RUN_LIMIT`: the tenant has a record of as many runs as this server allows; this one would be another. Nothing was done.
         *     `RATE_LIMITED`: the caller's tenant or subject sends too many requests. Nothing was done; `retry_after_ms` says when to try again.
         */
        readonly TooManyRuns: {
            headers: {
                readonly "Retry-After": components["headers"]["RetryAfter"];
                readonly "X-Request-Id": components["headers"]["RequestID"];
                readonly [name: string]: unknown;
            };
            content: {
                readonly "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * `PLACEMENT_LIMIT`: the tenant has as many clusters, or the cluster as many identities, as this server allows; this one would be another. Nothing was
         *     done. `RATE_LIMITED`: the caller's tenant or subject sends too many requests. Nothing was done; `retry_after_ms` says when to try again.
         */
        readonly TooManyPlaced: {
            headers: {
                readonly "Retry-After": components["headers"]["RetryAfter"];
                readonly "X-Request-Id": components["headers"]["RequestID"];
                readonly [name: string]: unknown;
            };
            content: {
                readonly "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * `UNAVAILABLE`: the store did not respond. The command may have been carried out: send it again with the same `request_id`.
         *     `CLOCK_SKEW`: the server's clock is too far off to decide about leases; nothing was changed. `OVERLOADED`: the server works on as many
         *     requests as it may, or sends as many pages; nothing was done.
         */
        readonly Unavailable: {
            headers: {
                readonly "Retry-After": components["headers"]["RetryAfter"];
                readonly "X-Request-Id": components["headers"]["RequestID"];
                readonly [name: string]: unknown;
            };
            content: {
                readonly "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** `DEADLINE_EXCEEDED`: the store took too long. The command may have been carried out: send it again with the same `request_id`. */
        readonly Timeout: {
            headers: {
                readonly "X-Request-Id": components["headers"]["RequestID"];
                readonly [name: string]: unknown;
            };
            content: {
                readonly "application/problem+json": components["schemas"]["Problem"];
            };
        };
    };
    parameters: {
        /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
        readonly TenantID: string;
        /** Which lock, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
        readonly LockKey: string;
        /** What is protected, 1 to 256 bytes without control characters. */
        readonly Resource: string;
        /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
        readonly Cluster: string;
        /**
         * The name of the member, 1 to 128 bytes without control characters. With authentication it is 1 to 64 letters, digits, ".", "_" and
         *     "-" after the token's subject, giving "subject#name", or that whole name, with "#" as `%23`.
         */
        readonly Member: string;
        /** The kind of the identity: 1 to 64 letters, digits, ".", "_" and "-". */
        readonly Kind: string;
        /** The ID of the identity, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
        readonly IdentityID: string;
        /** The ID of the analysis' document, 1 to 256 bytes without control characters and "/". */
        readonly AnalysisID: string;
        /** The name of the run, 1 to 256 bytes without control characters and "/". */
        readonly RunID: string;
    };
    requestBodies: never;
    headers: {
        /** Names this exchange in the server's log. It is the request's, or a random one. */
        readonly RequestID: string;
        /** Whole seconds until a retry makes sense; of a request that waits, until it is to be sent again. */
        readonly RetryAfter: number;
        /** Names the epoch, for `If-None-Match`. */
        readonly ETag: string;
        /** `private, no-cache`: it may be kept, and is asked for again with `If-None-Match`. */
        readonly CacheControl: string;
    };
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    readonly acquireLock: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which lock, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly lock_key: components["parameters"]["LockKey"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/json": components["schemas"]["AcquireRequest"];
            };
        };
        readonly responses: {
            /** The caller holds the lock until `expires_at`. With the mode `rate`, it may do what it asked for once. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Lease"];
                };
            };
            /** With `give_up`: nothing is held under this `request_id`, and nothing will be. */
            readonly 204: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 408: components["responses"]["TooSlow"];
            /**
             * `TOO_LATE`: `not_after` had passed when the request came to the store; nothing was changed.
             *     `LOCK_HELD`: the lock is held, by another owner or under another `request_id`; or with `rate`, the window has had its grants. `retry_after_ms`
             *     says when it is free if its holder does nothing, `position` the caller's place in line, if it has one, `poll_after_ms` when a request that
             *     waits is to be sent again. `LOCK_MODE_DIFFERS`: the lock is held or
             *     waited for in another mode, or with another limit or window. `LOCK_QUEUE_FULL`: as many wait as `max_waiting` allows. `LOCK_DELAYED`: the last
             *     lease was lost, and the lock stays closed for its lock delay. `LEASE_EXPIRED`: the ttl passed before the store responded.
             */
            readonly 409: {
                headers: {
                    readonly "Retry-After": components["headers"]["RetryAfter"];
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 422: components["responses"]["RequestIDReused"];
            readonly 429: components["responses"]["TooManyLocks"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly renewLock: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which lock, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly lock_key: components["parameters"]["LockKey"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "request_id": "0b6e55d1",
                 *       "owner_id": "ci-42",
                 *       "fencing_token": 1767225600000001,
                 *       "ttl_seconds": 30,
                 *       "expires_at": "2026-01-01T00:00:30.000Z"
                 *     }
                 */
                readonly "application/json": components["schemas"]["RenewRequest"];
            };
        };
        readonly responses: {
            /** The lease with its new expiry. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "tenant_id": "acme",
                     *       "lock_key": "deploy-prod",
                     *       "lease_id": "NAVM2S5HVHDHPWIIQGNDTZ33PQ",
                     *       "owner_id": "ci-42",
                     *       "fencing_token": 1767225600000001,
                     *       "state": "ACTIVE",
                     *       "acquired_at": "2026-01-01T00:00:00.000Z",
                     *       "expires_at": "2026-01-01T00:00:50.000Z",
                     *       "remaining_ms": 30000,
                     *       "ttl_seconds": 30,
                     *       "metadata": {
                     *         "build": "991"
                     *       },
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["Lease"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 408: components["responses"]["TooSlow"];
            readonly 409: components["responses"]["NotRenewed"];
            readonly 413: components["responses"]["TooLarge"];
            readonly 422: components["responses"]["RequestIDReused"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly releaseLock: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which lock, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly lock_key: components["parameters"]["LockKey"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "request_id": "5a0f91c3",
                 *       "owner_id": "ci-42",
                 *       "fencing_token": 1767225600000001
                 *     }
                 */
                readonly "application/json": components["schemas"]["ReleaseRequest"];
            };
        };
        readonly responses: {
            /** The lease has ended. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "tenant_id": "acme",
                     *       "lock_key": "deploy-prod",
                     *       "lease_id": "NAVM2S5HVHDHPWIIQGNDTZ33PQ",
                     *       "owner_id": "ci-42",
                     *       "fencing_token": 1767225600000001,
                     *       "state": "RELEASED",
                     *       "acquired_at": "2026-01-01T00:00:00.000Z",
                     *       "expires_at": "2026-01-01T00:00:30.000Z",
                     *       "released_at": "2026-01-01T00:00:10.000Z",
                     *       "ttl_seconds": 30,
                     *       "metadata": {
                     *         "build": "991"
                     *       },
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["EndedLease"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 408: components["responses"]["TooSlow"];
            readonly 409: components["responses"]["LeaseGone"];
            readonly 413: components["responses"]["TooLarge"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly forceReleaseLock: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which lock, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly lock_key: components["parameters"]["LockKey"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "request_id": "c1d2e3f4",
                 *       "owner_id": "admin",
                 *       "reason": "no heartbeat since 09:00"
                 *     }
                 */
                readonly "application/json": components["schemas"]["ForceReleaseRequest"];
            };
        };
        readonly responses: {
            /** The lease has ended. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "tenant_id": "acme",
                     *       "lock_key": "deploy-prod",
                     *       "lease_id": "NAVM2S5HVHDHPWIIQGNDTZ33PQ",
                     *       "owner_id": "ci-42",
                     *       "state": "RELEASED",
                     *       "acquired_at": "2026-01-01T00:00:00.000Z",
                     *       "expires_at": "2026-01-01T00:00:30.000Z",
                     *       "released_at": "2026-01-01T00:00:10.000Z",
                     *       "ttl_seconds": 30,
                     *       "metadata": {
                     *         "build": "991"
                     *       },
                     *       "force_release": {
                     *         "by": "admin",
                     *         "reason": "no heartbeat since 09:00",
                     *         "at": "2026-01-01T00:00:10.000Z"
                     *       },
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["ForceReleased"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 408: components["responses"]["TooSlow"];
            /** `LOCK_NOT_HELD`: there is no lease to end, and nothing that closes the lock. `LEASE_LOST`: the lock is held under another `lease_id`. */
            readonly 409: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 422: components["responses"]["RequestIDReused"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly getLock: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which lock, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly lock_key: components["parameters"]["LockKey"];
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** The lock. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Lock"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            /** `NOT_FOUND`: there is no record of this lock. It was never held, or its record was removed after it had been free for long. */
            readonly 404: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly acquireLocks: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "request_id": "7f1c0d52",
                 *       "owner_id": "ci-42",
                 *       "lock_keys": [
                 *         "account-17",
                 *         "account-4"
                 *       ],
                 *       "ttl_seconds": 30,
                 *       "metadata": {
                 *         "build": "991"
                 *       }
                 *     }
                 */
                readonly "application/json": components["schemas"]["LockSetAcquireRequest"];
            };
        };
        readonly responses: {
            /** The caller holds all of the locks until `expires_at`. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "tenant_id": "acme",
                     *       "owner_id": "ci-42",
                     *       "state": "ACTIVE",
                     *       "leases": [
                     *         {
                     *           "lock_key": "account-17",
                     *           "lease_id": "NAVM2S5HVHDHPWIIQGNDTZ33PQ",
                     *           "fencing_token": 1767225600000001
                     *         },
                     *         {
                     *           "lock_key": "account-4",
                     *           "lease_id": "4FQ7DPKEXPZ6JZ3TJGRC5N2LWQ",
                     *           "fencing_token": 1767225600000008
                     *         }
                     *       ],
                     *       "acquired_at": "2026-01-01T00:00:00.000Z",
                     *       "expires_at": "2026-01-01T00:00:30.000Z",
                     *       "remaining_ms": 30000,
                     *       "ttl_seconds": 30,
                     *       "metadata": {
                     *         "build": "991"
                     *       },
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["LockSet"];
                };
            };
            /** With `give_up`: nothing is held under this `request_id`, and nothing will be. */
            readonly 204: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 408: components["responses"]["TooSlow"];
            /**
             * `TOO_LATE`: `not_after` had passed when the request came to the store; nothing was changed.
             *     `LOCK_HELD`: the lock `lock_key` is held, or others are before this request; with several, the one that is held for longest. `LOCK_MODE_DIFFERS`:
             *     it is held or waited for in another mode. `LOCK_DELAYED`: its last lease was lost, and it stays closed for its lock delay. `LEASE_EXPIRED`: the ttl passed before the
             *     store responded. No lock was acquired.
             */
            readonly 409: {
                headers: {
                    readonly "Retry-After": components["headers"]["RetryAfter"];
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 422: components["responses"]["RequestIDReused"];
            readonly 429: components["responses"]["TooManyLocks"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly renewLocks: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "request_id": "0b6e55d1",
                 *       "owner_id": "ci-42",
                 *       "leases": [
                 *         {
                 *           "lock_key": "account-17",
                 *           "fencing_token": 1767225600000001
                 *         },
                 *         {
                 *           "lock_key": "account-4",
                 *           "fencing_token": 1767225600000008
                 *         }
                 *       ],
                 *       "ttl_seconds": 30,
                 *       "expires_at": "2026-01-01T00:00:30.000Z"
                 *     }
                 */
                readonly "application/json": components["schemas"]["LockSetRenewRequest"];
            };
        };
        readonly responses: {
            /** The leases with their new expiry. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "tenant_id": "acme",
                     *       "owner_id": "ci-42",
                     *       "state": "ACTIVE",
                     *       "leases": [
                     *         {
                     *           "lock_key": "account-17",
                     *           "fencing_token": 1767225600000001
                     *         },
                     *         {
                     *           "lock_key": "account-4",
                     *           "fencing_token": 1767225600000008
                     *         }
                     *       ],
                     *       "expires_at": "2026-01-01T00:00:50.000Z",
                     *       "remaining_ms": 30000,
                     *       "ttl_seconds": 30,
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["LockSet"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 408: components["responses"]["TooSlow"];
            /**
             * `LEASE_CHANGED`: the lease of `lock_key` does not expire at the `expires_at` that was named; all are still held. Send the renewal again with
             *     the time of this response.
             *
             *     Otherwise the caller no longer holds `lock_key`: `LEASE_LOST` (a later lease was granted), `LEASE_EXPIRED`, or `LEASE_RELEASED`. None was
             *     renewed. Stop the work that they protected, and release them.
             */
            readonly 409: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 422: components["responses"]["RequestIDReused"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly releaseLocks: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "request_id": "5a0f91c3",
                 *       "owner_id": "ci-42",
                 *       "leases": [
                 *         {
                 *           "lock_key": "account-17",
                 *           "fencing_token": 1767225600000001
                 *         },
                 *         {
                 *           "lock_key": "account-4",
                 *           "fencing_token": 1767225600000008
                 *         }
                 *       ]
                 *     }
                 */
                readonly "application/json": components["schemas"]["LockSetReleaseRequest"];
            };
        };
        readonly responses: {
            /** All of the leases have ended. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "tenant_id": "acme",
                     *       "owner_id": "ci-42",
                     *       "state": "RELEASED",
                     *       "leases": [
                     *         {
                     *           "lock_key": "account-17",
                     *           "fencing_token": 1767225600000001
                     *         },
                     *         {
                     *           "lock_key": "account-4",
                     *           "fencing_token": 1767225600000008
                     *         }
                     *       ],
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["LockSetReleased"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 408: components["responses"]["TooSlow"];
            /**
             * The caller did not hold `lock_key` any more: `LEASE_LOST` (a later lease was granted), `LEASE_EXPIRED`, or `LEASE_RELEASED` (under another
             *     `request_id`, or ended by an administrator). Those that it held are released.
             */
            readonly 409: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly listLocks: {
        readonly parameters: {
            readonly query?: {
                /** Only locks whose key begins with this. */
                readonly prefix?: string;
                /** Only locks in this state. */
                readonly state?: components["schemas"]["State"];
                /** Only locks that this owner holds, held last, or waits for in line. */
                readonly owner_id?: string;
                /**
                 * With `true` only locks that need a look: those with a line, and those with a lease of which less than a third is left. A holder
                 *     that renews in time never comes there.
                 */
                readonly urgent?: boolean;
                readonly page_size?: number;
                /** `next_page_token` of the page before. */
                readonly page_token?: string;
            };
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** A page of locks. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "locks": [
                     *         {
                     *           "tenant_id": "acme",
                     *           "lock_key": "deploy-prod",
                     *           "lease_id": "NAVM2S5HVHDHPWIIQGNDTZ33PQ",
                     *           "owner_id": "ci-42",
                     *           "state": "ACTIVE",
                     *           "acquired_at": "2026-01-01T00:00:00.000Z",
                     *           "expires_at": "2026-01-01T00:00:30.000Z",
                     *           "ttl_seconds": 30,
                     *           "metadata": {
                     *             "build": "991"
                     *           }
                     *         }
                     *       ],
                     *       "at": "2026-01-01T00:00:12.000Z",
                     *       "counts": {
                     *         "documents": 1,
                     *         "active": 1,
                     *         "released": 0,
                     *         "expired": 0,
                     *         "waited_for": 0,
                     *         "ending": 0
                     *       },
                     *       "next_page_token": "ZGVwbG95LXByb2Q"
                     *     }
                     */
                    readonly "application/json": components["schemas"]["LockPage"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly getFence: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** What is protected, 1 to 256 bytes without control characters. */
                readonly resource: components["parameters"]["Resource"];
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** The highest token that was checked. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "tenant_id": "acme",
                     *       "resource": "orders-db",
                     *       "highest_token": 1767229200000000
                     *     }
                     */
                    readonly "application/json": components["schemas"]["Fence"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            /** `NOT_FOUND`: no token of this resource is remembered. */
            readonly 404: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly checkFence: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** What is protected, 1 to 256 bytes without control characters. */
                readonly resource: components["parameters"]["Resource"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "fencing_token": 1767225600000007
                 *     }
                 */
                readonly "application/json": components["schemas"]["FenceRequest"];
            };
        };
        readonly responses: {
            /** The token is not stale. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "tenant_id": "acme",
                     *       "resource": "orders-db",
                     *       "fencing_token": 1767225600000007
                     *     }
                     */
                    readonly "application/json": components["schemas"]["FencePassed"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 408: components["responses"]["TooSlow"];
            /** `STALE_TOKEN`: a higher token was seen. The sender of this one has lost the lock. */
            readonly 409: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 429: components["responses"]["TooManyLocks"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly resetFence: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** What is protected, 1 to 256 bytes without control characters. */
                readonly resource: components["parameters"]["Resource"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "owner_id": "admin",
                 *       "highest_token": 1767229200000000,
                 *       "reason": "a token of the test system"
                 *     }
                 */
                readonly "application/json": components["schemas"]["FenceResetRequest"];
            };
        };
        readonly responses: {
            /** The fence has forgotten the token. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "tenant_id": "acme",
                     *       "resource": "orders-db",
                     *       "reset_token": 1767229200000000,
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["FenceReset"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            /** `NOT_FOUND`: no token of this resource is remembered. */
            readonly 404: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 408: components["responses"]["TooSlow"];
            /** `STALE_TOKEN`: another token is the highest by now, `highest_token`. Nothing was changed. */
            readonly 409: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly removeFence: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** What is protected, 1 to 256 bytes without control characters. */
                readonly resource: components["parameters"]["Resource"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "owner_id": "admin",
                 *       "highest_token": 1767229200000000,
                 *       "reason": "the database was deleted"
                 *     }
                 */
                readonly "application/json": components["schemas"]["FenceRemoveRequest"];
            };
        };
        readonly responses: {
            /** There is no fence of this resource. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "tenant_id": "acme",
                     *       "resource": "orders-db",
                     *       "removed_token": 1767229200000000,
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["FenceRemoved"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 408: components["responses"]["TooSlow"];
            /** `STALE_TOKEN`: another token is the highest by now, `highest_token`. Nothing was changed. */
            readonly 409: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly listClusters: {
        readonly parameters: {
            readonly query?: {
                readonly page_size?: number;
                /** `next_page_token` of the page before. */
                readonly page_token?: string;
            };
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** A page of clusters. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "clusters": [
                     *         {
                     *           "cluster": "rooms"
                     *         },
                     *         {
                     *           "cluster": "sessions"
                     *         }
                     *       ]
                     *     }
                     */
                    readonly "application/json": components["schemas"]["ClusterPage"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly removeCluster: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "epoch": 7,
                 *       "reason": "the test is over"
                 *     }
                 */
                readonly "application/json": components["schemas"]["ClusterRemoveRequest"];
            };
        };
        readonly responses: {
            /** The cluster is removed. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "tenant_id": "acme",
                     *       "cluster": "chat",
                     *       "epoch": 7,
                     *       "identities": 120,
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["ClusterRemoved"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            /** `NOT_FOUND`: the cluster never had a member, or was removed from another epoch. */
            readonly 404: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 408: components["responses"]["TooSlow"];
            /**
             * `MEMBER_EXISTS`: the cluster has members that live; `retry_after_ms` says when the first lease ends if its member sends no heartbeat.
             *     `STALE_EPOCH`: the epoch is another one by now, `epoch`. Nothing was changed.
             */
            readonly 409: {
                headers: {
                    readonly "Retry-After": components["headers"]["RetryAfter"];
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly joinCluster: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /**
                 * The name of the member, 1 to 128 bytes without control characters. With authentication it is 1 to 64 letters, digits, ".", "_" and
                 *     "-" after the token's subject, giving "subject#name", or that whole name, with "#" as `%23`.
                 */
                readonly member: components["parameters"]["Member"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "request_id": "2c7a1e90",
                 *       "kinds": [
                 *         "room"
                 *       ],
                 *       "labels": {
                 *         "zone": "a"
                 *       },
                 *       "address": "10.0.0.5:9000",
                 *       "ttl_seconds": 10
                 *     }
                 */
                readonly "application/json": components["schemas"]["MemberJoinRequest"];
            };
        };
        readonly responses: {
            /** The member has joined. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "member": "worker-1",
                     *       "incarnation": 1767225600000001,
                     *       "status": "ACTIVE",
                     *       "epoch": 1,
                     *       "moved": 4096,
                     *       "expires_at": "2026-01-01T00:00:10.000Z",
                     *       "remaining_ms": 10000,
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["MemberState"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 408: components["responses"]["TooSlow"];
            /**
             * `TOO_LATE`: `not_after` had passed when the request came to the store; nothing was changed.
             *     `MEMBER_EXISTS`: a member of this name lives; `retry_after_ms` says when its lease ends if it sends no heartbeat.
             *     `CLUSTER_DIFFERS`: the cluster has another number of partitions. `CLUSTER_FULL`: the cluster has as many members as it can, and the
             *     leases of all of them last; `retry_after_ms` says when the first one ends.
             *     `LEASE_EXPIRED`: the time to live passed before the store responded. Nothing was changed.
             */
            readonly 409: {
                headers: {
                    readonly "Retry-After": components["headers"]["RetryAfter"];
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 422: components["responses"]["RequestIDReused"];
            readonly 429: components["responses"]["TooManyPlaced"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly replaceMember: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /**
                 * The name of the member, 1 to 128 bytes without control characters. With authentication it is 1 to 64 letters, digits, ".", "_" and
                 *     "-" after the token's subject, giving "subject#name", or that whole name, with "#" as `%23`.
                 */
                readonly member: components["parameters"]["Member"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "request_id": "9d3b52f1",
                 *       "replaces": {
                 *         "member": "worker-1",
                 *         "incarnation": 1767225600000001
                 *       },
                 *       "kinds": [
                 *         "room"
                 *       ],
                 *       "address": "10.0.0.6:9000",
                 *       "ttl_seconds": 10
                 *     }
                 */
                readonly "application/json": components["schemas"]["MemberReplaceRequest"];
            };
        };
        readonly responses: {
            /** The member has joined, and the other drains. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "member": "worker-2",
                     *       "incarnation": 1767225600000009,
                     *       "status": "ACTIVE",
                     *       "epoch": 7,
                     *       "moved": 1024,
                     *       "expires_at": "2026-01-01T00:00:10.000Z",
                     *       "remaining_ms": 10000,
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["MemberState"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            /** `MEMBER_UNKNOWN`: there is no member of this name. Nothing was changed. */
            readonly 404: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 408: components["responses"]["TooSlow"];
            /**
             * `TOO_LATE`: `not_after` had passed when the request came to the store; nothing was changed.
             *     `MEMBER_EXISTS`: a member of this name lives; `retry_after_ms` says when its lease ends if it sends no heartbeat.
             *     `STALE_INCARNATION`: the incarnation has ended; `incarnation` is the current one. `CLUSTER_DIFFERS`: the cluster has another
             *     number of partitions. `CLUSTER_FULL`: the cluster has as many members as it can, and the leases of all of them last;
             *     `retry_after_ms` says when the first one ends. `LEASE_EXPIRED`: the time to live passed before the store responded. Nothing was changed.
             */
            readonly 409: {
                headers: {
                    readonly "Retry-After": components["headers"]["RetryAfter"];
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 422: components["responses"]["RequestIDReused"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly heartbeatMember: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /**
                 * The name of the member, 1 to 128 bytes without control characters. With authentication it is 1 to 64 letters, digits, ".", "_" and
                 *     "-" after the token's subject, giving "subject#name", or that whole name, with "#" as `%23`.
                 */
                readonly member: components["parameters"]["Member"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "incarnation": 1767225600000001,
                 *       "seq": 1,
                 *       "ttl_seconds": 10
                 *     }
                 */
                readonly "application/json": components["schemas"]["MemberHeartbeatRequest"];
            };
        };
        readonly responses: {
            /** The lease goes on. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "member": "worker-1",
                     *       "incarnation": 1767225600000001,
                     *       "status": "ACTIVE",
                     *       "expires_at": "2026-01-01T00:00:13.000Z",
                     *       "remaining_ms": 10000,
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["MemberState"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            /** `MEMBER_UNKNOWN`: there is no member of this name. Nothing was changed. */
            readonly 404: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 408: components["responses"]["TooSlow"];
            /**
             * `STALE_INCARNATION`: the incarnation has ended; `incarnation` is the current one. `LEASE_EXPIRED`: the time to live passed
             *     before the store responded. Nothing was changed.
             */
            readonly 409: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly drainMember: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /**
                 * The name of the member, 1 to 128 bytes without control characters. With authentication it is 1 to 64 letters, digits, ".", "_" and
                 *     "-" after the token's subject, giving "subject#name", or that whole name, with "#" as `%23`.
                 */
                readonly member: components["parameters"]["Member"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "incarnation": 1767225600000001
                 *     }
                 */
                readonly "application/json": components["schemas"]["MemberRequest"];
            };
        };
        readonly responses: {
            /** The member drains. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "member": "worker-1",
                     *       "incarnation": 1767225600000001,
                     *       "status": "DRAINING",
                     *       "epoch": 8,
                     *       "moved": 1024,
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["MemberState"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            /** `MEMBER_UNKNOWN`: there is no member of this name. Nothing was changed. */
            readonly 404: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 408: components["responses"]["TooSlow"];
            /** `STALE_INCARNATION`: the incarnation has ended; `incarnation` is the current one. Nothing was changed. */
            readonly 409: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly leaveCluster: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /**
                 * The name of the member, 1 to 128 bytes without control characters. With authentication it is 1 to 64 letters, digits, ".", "_" and
                 *     "-" after the token's subject, giving "subject#name", or that whole name, with "#" as `%23`.
                 */
                readonly member: components["parameters"]["Member"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "incarnation": 1767225600000001
                 *     }
                 */
                readonly "application/json": components["schemas"]["MemberRequest"];
            };
        };
        readonly responses: {
            /** The member has left. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "member": "worker-1",
                     *       "incarnation": 1767225600000001,
                     *       "status": "LEFT",
                     *       "epoch": 9,
                     *       "moved": 1024,
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["MemberState"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            /** `MEMBER_UNKNOWN`: there is no member of this name. Nothing was changed. */
            readonly 404: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 408: components["responses"]["TooSlow"];
            /** `STALE_INCARNATION`: the incarnation has ended; `incarnation` is the current one. Nothing was changed. */
            readonly 409: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly evictMember: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /**
                 * The name of the member, 1 to 128 bytes without control characters. With authentication it is 1 to 64 letters, digits, ".", "_" and
                 *     "-" after the token's subject, giving "subject#name", or that whole name, with "#" as `%23`.
                 */
                readonly member: components["parameters"]["Member"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "incarnation": 1767225600000001,
                 *       "reason": "serves nothing since 09:00"
                 *     }
                 */
                readonly "application/json": components["schemas"]["MemberEvictRequest"];
            };
        };
        readonly responses: {
            /** The member is evicted. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "member": "worker-1",
                     *       "incarnation": 1767225600000001,
                     *       "status": "DEAD",
                     *       "epoch": 9,
                     *       "moved": 1024,
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["MemberState"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            /** `MEMBER_UNKNOWN`: there is no member of this name. Nothing was changed. */
            readonly 404: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 408: components["responses"]["TooSlow"];
            /** `STALE_INCARNATION`: the incarnation has ended; `incarnation` is the current one. Nothing was changed. */
            readonly 409: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly changeOffer: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /**
                 * The name of the member, 1 to 128 bytes without control characters. With authentication it is 1 to 64 letters, digits, ".", "_" and
                 *     "-" after the token's subject, giving "subject#name", or that whole name, with "#" as `%23`.
                 */
                readonly member: components["parameters"]["Member"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "incarnation": 1767225600000001,
                 *       "request_id": "77c0d1aa",
                 *       "kinds": [
                 *         "room"
                 *       ],
                 *       "labels": {
                 *         "zone": "a"
                 *       },
                 *       "full": true
                 *     }
                 */
                readonly "application/json": components["schemas"]["MemberOfferRequest"];
            };
        };
        readonly responses: {
            /** The member offers this. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "member": "worker-1",
                     *       "incarnation": 1767225600000001,
                     *       "status": "ACTIVE",
                     *       "epoch": 10,
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["MemberState"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            /** `MEMBER_UNKNOWN`: there is no member of this name. Nothing was changed. */
            readonly 404: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 408: components["responses"]["TooSlow"];
            /**
             * `STALE_INCARNATION`: the incarnation has ended; `incarnation` is the current one. `CLUSTER_FULL`: the cluster has as many
             *     members as it can; `retry_after_ms` says when the first lease ends. Nothing was changed.
             */
            readonly 409: {
                headers: {
                    readonly "Retry-After": components["headers"]["RetryAfter"];
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 422: components["responses"]["RequestIDReused"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly listMembers: {
        readonly parameters: {
            readonly query?: {
                /** The epoch that the caller knows. */
                readonly since?: number;
                /** When it began; required with `since`. A store that was set back can begin an epoch again, at another time. */
                readonly changed_at?: components["schemas"]["Time"];
            };
            readonly header?: {
                /** The `ETag` of the epoch that the caller has. */
                readonly "If-None-Match"?: string;
            };
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** The members. */
            readonly 200: {
                headers: {
                    readonly ETag: components["headers"]["ETag"];
                    readonly "Cache-Control": components["headers"]["CacheControl"];
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "members": [
                     *         {
                     *           "member": "worker-1",
                     *           "incarnation": 1767225600000001,
                     *           "status": "ACTIVE",
                     *           "kinds": [
                     *             "room"
                     *           ],
                     *           "labels": {
                     *             "zone": "a"
                     *           },
                     *           "address": "10.0.0.5:9000",
                     *           "since": 1,
                     *           "at": "2026-01-01T00:00:00.000Z"
                     *         }
                     *       ],
                     *       "cluster": "chat",
                     *       "status": "READY",
                     *       "epoch": 1,
                     *       "changed_at": "2026-01-01T00:00:00.000Z"
                     *     }
                     */
                    readonly "application/json": components["schemas"]["MemberList"];
                };
            };
            /** The epoch is the one that `If-None-Match` names. The response has no body. */
            readonly 304: {
                headers: {
                    readonly ETag: components["headers"]["ETag"];
                    readonly "Cache-Control": components["headers"]["CacheControl"];
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly getTopology: {
        readonly parameters: {
            readonly query?: {
                /**
                 * The number of the epoch; without it, or with 0, the current one. An earlier one is kept for a day, and compared with the next one it says
                 *     which partitions that one moved.
                 */
                readonly epoch?: number;
            };
            readonly header?: {
                /** The `ETag` of the epoch that the caller has. */
                readonly "If-None-Match"?: string;
            };
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** The epoch. */
            readonly 200: {
                headers: {
                    readonly ETag: components["headers"]["ETag"];
                    readonly "Cache-Control": components["headers"]["CacheControl"];
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "members": [
                     *         {
                     *           "member": "worker-1",
                     *           "incarnation": 1767225600000001,
                     *           "status": "ACTIVE",
                     *           "kinds": [
                     *             "room"
                     *           ],
                     *           "labels": {
                     *             "zone": "a"
                     *           },
                     *           "address": "10.0.0.5:9000",
                     *           "since": 1,
                     *           "at": "2026-01-01T00:00:00.000Z"
                     *         }
                     *       ],
                     *       "cluster": "chat",
                     *       "status": "READY",
                     *       "epoch": 1,
                     *       "changed_at": "2026-01-01T00:00:00.000Z",
                     *       "cause": "join of worker-1",
                     *       "hash_version": 1,
                     *       "partitions": 16,
                     *       "table": [
                     *         0,
                     *         0,
                     *         0,
                     *         0,
                     *         0,
                     *         0,
                     *         0,
                     *         0,
                     *         0,
                     *         0,
                     *         0,
                     *         0,
                     *         0,
                     *         0,
                     *         0,
                     *         0
                     *       ]
                     *     }
                     */
                    readonly "application/json": components["schemas"]["Topology"];
                };
            };
            /** The epoch is the one that `If-None-Match` names. The response has no body. */
            readonly 304: {
                headers: {
                    readonly ETag: components["headers"]["ETag"];
                    readonly "Cache-Control": components["headers"]["CacheControl"];
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            /** `NOT_FOUND`: this epoch has not been, or is kept no longer. */
            readonly 404: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly lookupPlacement: {
        readonly parameters: {
            readonly query?: {
                /** Labels that the member must have, as a JSON object: `{"zone":"a"}`, escaped as in a URL. */
                readonly labels?: string;
                /** Labels by which eligible members are preferred, as a JSON object. */
                readonly prefer?: string;
                /** By which the caller placed the identity. If it is over, the response is `STALE_EPOCH`. */
                readonly epoch?: number;
            };
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /** The kind of the identity: 1 to 64 letters, digits, ".", "_" and "-". */
                readonly kind: components["parameters"]["Kind"];
                /** The ID of the identity, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly id: components["parameters"]["IdentityID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** Where the identity is. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "kind": "room",
                     *       "id": "lobby",
                     *       "epoch": 1,
                     *       "partition": 11,
                     *       "placed": {
                     *         "member": "worker-1",
                     *         "incarnation": 1767225600000001,
                     *         "status": "ACTIVE",
                     *         "kinds": [
                     *           "room"
                     *         ],
                     *         "labels": {
                     *           "zone": "a"
                     *         },
                     *         "address": "10.0.0.5:9000",
                     *         "since": 1,
                     *         "at": "2026-01-01T00:00:00.000Z"
                     *       },
                     *       "owner": {
                     *         "member": "worker-1",
                     *         "incarnation": 1767225600000001,
                     *         "status": "ACTIVE",
                     *         "kinds": [
                     *           "room"
                     *         ],
                     *         "labels": {
                     *           "zone": "a"
                     *         },
                     *         "address": "10.0.0.5:9000",
                     *         "since": 1,
                     *         "at": "2026-01-01T00:00:00.000Z"
                     *       },
                     *       "activation": {
                     *         "kind": "room",
                     *         "id": "lobby",
                     *         "phase": "ACTIVE",
                     *         "fencing_token": 1767225601000001,
                     *         "member": "worker-1",
                     *         "incarnation": 1767225600000001,
                     *         "address": "10.0.0.5:9000",
                     *         "epoch": 1,
                     *         "claimed_at": "2026-01-01T00:00:01.000Z",
                     *         "activated_at": "2026-01-01T00:00:01.200Z",
                     *         "changed_at": "2026-01-01T00:00:01.200Z",
                     *         "state_version": 1,
                     *         "state": "eyJ1c2VycyI6M30="
                     *       }
                     *     }
                     */
                    readonly "application/json": components["schemas"]["Placement"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            /**
             * `TOPOLOGY_UNDETERMINED`: the cluster has no active member. `NO_ELIGIBLE_MEMBER`: no member may host the identity. `STALE_EPOCH`:
             *     the caller placed by an epoch that is over; `epoch` is the current one. Nothing was changed.
             */
            readonly 409: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly claimActivation: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /** The kind of the identity: 1 to 64 letters, digits, ".", "_" and "-". */
                readonly kind: components["parameters"]["Kind"];
                /** The ID of the identity, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly id: components["parameters"]["IdentityID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "request_id": "e5f7a2c4",
                 *       "labels": {
                 *         "zone": "a"
                 *       },
                 *       "lock_ttl_seconds": 10
                 *     }
                 */
                readonly "application/json": components["schemas"]["ActivationClaimRequest"];
            };
        };
        readonly responses: {
            /** The identity has an owner. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "activation": {
                     *         "kind": "room",
                     *         "id": "lobby",
                     *         "phase": "LOCKED",
                     *         "fencing_token": 1767225601000001,
                     *         "member": "worker-1",
                     *         "incarnation": 1767225600000001,
                     *         "address": "10.0.0.5:9000",
                     *         "epoch": 1,
                     *         "lock_until": "2026-01-01T00:00:11.000Z",
                     *         "claimed_at": "2026-01-01T00:00:01.000Z",
                     *         "changed_at": "2026-01-01T00:00:01.000Z",
                     *         "state_version": 0
                     *       },
                     *       "remaining_ms": 10000,
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["ActivationOutcome"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 408: components["responses"]["TooSlow"];
            /**
             * `TOO_LATE`: `not_after` had passed when the request came to the store; nothing was changed.
             *     `ACTIVATION_EXISTS`: the identity is active; `activation` says where. `ACTIVATION_LOCKED`: another claim is being carried out;
             *     `retry_after_ms` says until when at most. `ACTIVATION_FAILED`: the activation that this claim began failed; `activation` has the
             *     reason. `TOPOLOGY_UNDETERMINED`: the cluster has no active member. `NO_ELIGIBLE_MEMBER`: no member may host the identity.
             *     `MEMBER_INELIGIBLE`: the member may not host it; `ineligible` says why. `STALE_EPOCH`: the caller placed by an epoch that is
             *     over; `epoch` is the current one. `LEASE_EXPIRED`: the time to live passed before the store responded. Nothing was changed.
             */
            readonly 409: {
                headers: {
                    readonly "Retry-After": components["headers"]["RetryAfter"];
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 422: components["responses"]["RequestIDReused"];
            readonly 429: components["responses"]["TooManyPlaced"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly activated: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /** The kind of the identity: 1 to 64 letters, digits, ".", "_" and "-". */
                readonly kind: components["parameters"]["Kind"];
                /** The ID of the identity, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly id: components["parameters"]["IdentityID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "member": "worker-1",
                 *       "incarnation": 1767225600000001,
                 *       "fencing_token": 1767225601000001
                 *     }
                 */
                readonly "application/json": components["schemas"]["ActivationHoldRequest"];
            };
        };
        readonly responses: {
            /** The activation is `ACTIVE`. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "activation": {
                     *         "kind": "room",
                     *         "id": "lobby",
                     *         "phase": "ACTIVE",
                     *         "fencing_token": 1767225601000001,
                     *         "member": "worker-1",
                     *         "incarnation": 1767225600000001,
                     *         "changed_at": "2026-01-01T00:00:01.200Z",
                     *         "activated_at": "2026-01-01T00:00:01.200Z"
                     *       },
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["ActivationOutcome"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 408: components["responses"]["TooSlow"];
            /**
             * `STALE_TOKEN`: the token is not the current one: the activation has ended, or was taken over. `WRONG_PHASE`: the activation is
             *     in a phase in which this cannot be done. `MEMBER_INELIGIBLE`: the member may not host it; `ineligible` says why. Nothing was
             *     changed.
             */
            readonly 409: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly activationFailed: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /** The kind of the identity: 1 to 64 letters, digits, ".", "_" and "-". */
                readonly kind: components["parameters"]["Kind"];
                /** The ID of the identity, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly id: components["parameters"]["IdentityID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "member": "worker-1",
                 *       "incarnation": 1767225600000001,
                 *       "fencing_token": 1767225601000001,
                 *       "reason": "the snapshot cannot be read"
                 *     }
                 */
                readonly "application/json": components["schemas"]["ActivationFailedRequest"];
            };
        };
        readonly responses: {
            /** The identity is free. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "activation": {
                     *         "kind": "room",
                     *         "id": "lobby",
                     *         "phase": "FREE",
                     *         "fencing_token": 1767225601000001,
                     *         "member": "worker-1",
                     *         "incarnation": 1767225600000001,
                     *         "changed_at": "2026-01-01T00:00:01.200Z",
                     *         "failed": true,
                     *         "reason": "the snapshot cannot be read"
                     *       },
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["ActivationOutcome"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 408: components["responses"]["TooSlow"];
            /**
             * `STALE_TOKEN`: the token is not the current one: the activation has ended, or was taken over. `WRONG_PHASE`: the activation is
             *     in a phase in which this cannot be done. Nothing was changed.
             */
            readonly 409: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly deactivate: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /** The kind of the identity: 1 to 64 letters, digits, ".", "_" and "-". */
                readonly kind: components["parameters"]["Kind"];
                /** The ID of the identity, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly id: components["parameters"]["IdentityID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "member": "worker-1",
                 *       "incarnation": 1767225600000001,
                 *       "fencing_token": 1767225601000001,
                 *       "reason": "the room is empty"
                 *     }
                 */
                readonly "application/json": components["schemas"]["ActivationEndRequest"];
            };
        };
        readonly responses: {
            /** The identity is free. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "activation": {
                     *         "kind": "room",
                     *         "id": "lobby",
                     *         "phase": "FREE",
                     *         "fencing_token": 1767225601000001,
                     *         "member": "worker-1",
                     *         "incarnation": 1767225600000001,
                     *         "changed_at": "2026-01-01T00:10:00.000Z",
                     *         "reason": "the room is empty"
                     *       },
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["ActivationOutcome"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 408: components["responses"]["TooSlow"];
            /**
             * `STALE_TOKEN`: the token is not the current one: the activation has ended, or was taken over. `WRONG_PHASE`: the activation is
             *     in a phase in which this cannot be done. Nothing was changed.
             */
            readonly 409: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly writeState: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /** The kind of the identity: 1 to 64 letters, digits, ".", "_" and "-". */
                readonly kind: components["parameters"]["Kind"];
                /** The ID of the identity, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly id: components["parameters"]["IdentityID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "member": "worker-1",
                 *       "incarnation": 1767225600000001,
                 *       "fencing_token": 1767225601000001,
                 *       "request_id": "31ad70b6",
                 *       "state_version": 0,
                 *       "state": "eyJ1c2VycyI6M30="
                 *     }
                 */
                readonly "application/json": components["schemas"]["ActivationStateRequest"];
            };
        };
        readonly responses: {
            /** The state is stored. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "activation": {
                     *         "kind": "room",
                     *         "id": "lobby",
                     *         "phase": "ACTIVE",
                     *         "fencing_token": 1767225601000001,
                     *         "member": "worker-1",
                     *         "incarnation": 1767225600000001,
                     *         "state_version": 1
                     *       },
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["ActivationOutcome"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 408: components["responses"]["TooSlow"];
            /**
             * `STALE_TOKEN`: the token is not the current one: the activation has ended, or was taken over. `WRONG_PHASE`: the activation is
             *     in a phase in which this cannot be done. `STATE_CHANGED`: the state has another version. Nothing was changed.
             */
            readonly 409: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 422: components["responses"]["RequestIDReused"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly transferActivation: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /** The kind of the identity: 1 to 64 letters, digits, ".", "_" and "-". */
                readonly kind: components["parameters"]["Kind"];
                /** The ID of the identity, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly id: components["parameters"]["IdentityID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "member": "worker-1",
                 *       "incarnation": 1767225600000001,
                 *       "fencing_token": 1767225601000001,
                 *       "request_id": "6b0f9c12",
                 *       "to": "worker-2"
                 *     }
                 */
                readonly "application/json": components["schemas"]["ActivationTransferRequest"];
            };
        };
        readonly responses: {
            /** The identity has another owner. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "activation": {
                     *         "kind": "room",
                     *         "id": "lobby",
                     *         "phase": "LOCKED",
                     *         "fencing_token": 1767225601000002,
                     *         "member": "worker-2",
                     *         "incarnation": 1767225600000001,
                     *         "address": "10.0.0.6:9000",
                     *         "epoch": 1,
                     *         "lock_until": "2026-01-01T00:10:01.000Z",
                     *         "claimed_at": "2026-01-01T00:00:01.000Z",
                     *         "changed_at": "2026-01-01T00:00:01.000Z",
                     *         "state_version": 0
                     *       },
                     *       "remaining_ms": 600000,
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["ActivationOutcome"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 408: components["responses"]["TooSlow"];
            /**
             * `TOO_LATE`: `not_after` had passed when the request came to the store; nothing was changed.
             *     `STALE_TOKEN`: the token is not the current one: the activation has ended, or was taken over. `WRONG_PHASE`: the activation is
             *     in a phase in which this cannot be done. `TOPOLOGY_UNDETERMINED`: the cluster has no active member. `NO_ELIGIBLE_MEMBER`: no
             *     member may host the identity. `MEMBER_INELIGIBLE`: the member may not host it; `ineligible` says why. `LEASE_EXPIRED`: the time
             *     to live passed before the store responded. Nothing was changed.
             */
            readonly 409: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 422: components["responses"]["RequestIDReused"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly getActivation: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
                /** The kind of the identity: 1 to 64 letters, digits, ".", "_" and "-". */
                readonly kind: components["parameters"]["Kind"];
                /** The ID of the identity, 1 to 256 bytes without control characters. "/" is sent as `%2F` and has no meaning of its own. */
                readonly id: components["parameters"]["IdentityID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** The activation. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "kind": "room",
                     *       "id": "lobby",
                     *       "phase": "ACTIVE",
                     *       "fencing_token": 1767225601000001,
                     *       "member": "worker-1",
                     *       "incarnation": 1767225600000001,
                     *       "address": "10.0.0.5:9000",
                     *       "epoch": 1,
                     *       "claimed_at": "2026-01-01T00:00:01.000Z",
                     *       "activated_at": "2026-01-01T00:00:01.200Z",
                     *       "changed_at": "2026-01-01T00:00:01.200Z",
                     *       "state_version": 1,
                     *       "state": "eyJ1c2VycyI6M30="
                     *     }
                     */
                    readonly "application/json": components["schemas"]["Activation"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            /** `NOT_FOUND`: the identity was never claimed, or has been free for long. */
            readonly 404: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly listActivations: {
        readonly parameters: {
            readonly query?: {
                /** Only identities of this kind. */
                readonly kind?: string;
                readonly page_size?: number;
                /** `next_page_token` of the page before. */
                readonly page_token?: string;
            };
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** A page of activations. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "activations": [
                     *         {
                     *           "kind": "room",
                     *           "id": "lobby",
                     *           "phase": "ACTIVE",
                     *           "fencing_token": 1767225601000001,
                     *           "member": "worker-1",
                     *           "incarnation": 1767225600000001,
                     *           "address": "10.0.0.5:9000",
                     *           "epoch": 1,
                     *           "claimed_at": "2026-01-01T00:00:01.000Z",
                     *           "activated_at": "2026-01-01T00:00:01.200Z",
                     *           "changed_at": "2026-01-01T00:00:01.200Z",
                     *           "state_version": 1
                     *         }
                     *       ],
                     *       "status": "READY",
                     *       "epoch": 1,
                     *       "next_page_token": "cm9vbS9sb2JieQ"
                     *     }
                     */
                    readonly "application/json": components["schemas"]["ActivationPage"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly listEvents: {
        readonly parameters: {
            readonly query?: {
                /** `next` of the response before, or a time like `2026-01-01T00:00:00.000Z`; without it, the oldest events. */
                readonly after?: string;
                /** Only the events that the member of this name needs. */
                readonly member?: string;
                /** How long to wait for something new. */
                readonly wait_seconds?: number;
                readonly page_size?: number;
            };
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** Which cluster: 1 to 63 letters, digits, ".", "_" and "-". */
                readonly cluster: components["parameters"]["Cluster"];
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** The events after `after`, the oldest first. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "events": [
                     *         {
                     *           "event_id": "2026-01-01T00:00:01.000Z-00000002-V4Z5QXG3H7BMJ2K6N8PTRSWUCD",
                     *           "at": "2026-01-01T00:00:01.000Z",
                     *           "member": "worker-1",
                     *           "incarnation": 1767225600000001,
                     *           "kind": "room",
                     *           "id": "lobby",
                     *           "from": "FREE",
                     *           "to": "LOCKED",
                     *           "epoch": 1,
                     *           "fencing_token": 1767225601000001
                     *         }
                     *       ],
                     *       "next": "2026-01-01T00:00:01.000Z-00000002-V4Z5QXG3H7BMJ2K6N8PTRSWUCD~mjuptjk0~D2xq4kXv"
                     *     }
                     */
                    readonly "application/json": components["schemas"]["EventPage"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            /** `CURSOR_EXPIRED`: events after this place have been removed. Begin again without `after`. */
            readonly 410: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly leaseMachineIDs: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "serviceId": "default",
                 *       "meta": {
                 *         "host": "web-1"
                 *       },
                 *       "throughputPerMs": 256
                 *     }
                 */
                readonly "application/json": components["schemas"]["MachineIDLeaseRequest"];
            };
        };
        readonly responses: {
            /** The leases, at least one. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "leases": [
                     *         {
                     *           "id": 4711,
                     *           "created": 1767225600000,
                     *           "expired": 1767226200000,
                     *           "secret": "7b0f8c2f5a9d4be0a1c3d5e7f9012345",
                     *           "customEpoch": 1767225600000,
                     *           "bitReserve": 1,
                     *           "bitTs": 41,
                     *           "bitId": 14,
                     *           "bitSeq": 8
                     *         }
                     *       ]
                     *     }
                     */
                    readonly "application/json": components["schemas"]["MachineIDLeases"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 404: components["responses"]["UnknownService"];
            readonly 408: components["responses"]["TooSlow"];
            readonly 409: components["responses"]["TooLate"];
            readonly 413: components["responses"]["TooLarge"];
            /** `MACHINE_ID_LIMIT`: the caller's subject has as many leases as this server grants to one; `retry_after_ms` says when the next one expires. `RATE_LIMITED`: its tenant or subject sends too many requests. */
            readonly 429: {
                headers: {
                    readonly "Retry-After": components["headers"]["RetryAfter"];
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 500: components["responses"]["Internal"];
            /**
             * `MACHINE_IDS_EXHAUSTED`: all machine IDs of the service's namespace are leased; `retry_after_ms` says when the next one
             *     becomes free. `UNAVAILABLE`: the store did not respond. `CLOCK_SKEW`: the server's clock is too far off.
             */
            readonly 503: {
                headers: {
                    readonly "Retry-After": components["headers"]["RetryAfter"];
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly releaseMachineID: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** The machine ID, a whole number in decimal. */
                readonly id: number;
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "signature": "5f0c6bd5f7ff6f64bd1b2ef8b5f7c7d5c7a8cf8fb3f06de9ab7d8d2e9a6b7c12",
                 *       "timestamp": 1767225900000
                 *     }
                 */
                readonly "application/json": components["schemas"]["MachineIDReleaseRequest"];
            };
        };
        readonly responses: {
            /** The lease has ended. */
            readonly 204: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            /** `BAD_SIGNATURE`: not signed with the secret of the current lease; nothing was changed. `PERMISSION_DENIED`: this caller is not admitted. */
            readonly 403: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 404: components["responses"]["UnknownService"];
            readonly 408: components["responses"]["TooSlow"];
            readonly 413: components["responses"]["TooLarge"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly forceReleaseMachineIDs: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "serviceId": "payments",
                 *       "first": 0,
                 *       "last": 63,
                 *       "reason": "the hosts were terminated"
                 *     }
                 */
                readonly "application/json": components["schemas"]["MachineIDForceReleaseRequest"];
            };
        };
        readonly responses: {
            /** What was ended. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "space": "default",
                     *       "leases": 64,
                     *       "free": 1767225630000
                     *     }
                     */
                    readonly "application/json": components["schemas"]["MachineIDForceRelease"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 404: components["responses"]["UnknownService"];
            readonly 408: components["responses"]["TooSlow"];
            readonly 413: components["responses"]["TooLarge"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly machineIDOccupancy: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** Every namespace, by name. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "spaces": [
                     *         {
                     *           "space": "default",
                     *           "units": 8192,
                     *           "leased": 1,
                     *           "free": 8191,
                     *           "next_free": 1767226200000,
                     *           "leases": {
                     *             "default": 1
                     *           }
                     *         }
                     *       ]
                     *     }
                     */
                    readonly "application/json": components["schemas"]["MachineIDOccupancy"];
                };
            };
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly machineIDMap: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** The namespace, 1 to 128 bytes without control characters. */
                readonly space: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** Every unit of the namespace. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "space": "small",
                     *       "at": 1767225600000,
                     *       "longest_lease": 600000,
                     *       "units": 8,
                     *       "leased": 2,
                     *       "free": 6,
                     *       "next_free": 1767226200000,
                     *       "leases": {
                     *         "small": 2
                     *       },
                     *       "pages": [
                     *         "00900010"
                     *       ],
                     *       "custom_epoch": 1767225600000,
                     *       "bit_reserve": 1,
                     *       "bit_ts": 41,
                     *       "bit_id": 4
                     *     }
                     */
                    readonly "application/json": components["schemas"]["MachineIDMap"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            /** `NOT_FOUND`: no namespace has this name. */
            readonly 404: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly lockAnalysis: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** The ID of the analysis' document, 1 to 256 bytes without control characters and "/". */
                readonly analysis_id: components["parameters"]["AnalysisID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "owner_id": "worker-7",
                 *       "request_id": "7f1c0d52",
                 *       "ttl_seconds": 300
                 *     }
                 */
                readonly "application/json": components["schemas"]["AnalysisLockRequest"];
            };
        };
        readonly responses: {
            /** The lock, which lasts until `expires_at`, or the reason why it was not granted. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["AnalysisGrant"];
                };
            };
            /** With `give_up`: nothing is held under this `request_id`, and nothing will be. */
            readonly 204: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 404: components["responses"]["NoSuchAnalysis"];
            readonly 408: components["responses"]["TooSlow"];
            /**
             * `TOO_LATE`: `not_after` had passed when the request came to the store; nothing was changed.
             *     `LEASE_EXPIRED`: the lock expired before the store responded. `LOCK_UNREADABLE`: the document's `lockExpiresAt` does not say
             *     whether the lock has ended; correct it.
             */
            readonly 409: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            /**
             * `REQUEST_ID_REUSED`: this `request_id` was used with another `ttl_seconds`, or the lock that it obtained has ended. `RUN_DIFFERS`: the
             *     analysis was locked before with another `fingerprint`.
             */
            readonly 422: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly refreshAnalysis: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** The ID of the analysis' document, 1 to 256 bytes without control characters and "/". */
                readonly analysis_id: components["parameters"]["AnalysisID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "owner_id": "worker-7",
                 *       "fencing_token": 1,
                 *       "ttl_seconds": 300
                 *     }
                 */
                readonly "application/json": components["schemas"]["AnalysisRefreshRequest"];
            };
        };
        readonly responses: {
            /** The lock with its new expiry. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "analysis_id": "a-1024",
                     *       "owner_id": "worker-7",
                     *       "fencing_token": 1,
                     *       "expires_at": "2026-01-01T00:06:00.000Z",
                     *       "remaining_ms": 300000
                     *     }
                     */
                    readonly "application/json": components["schemas"]["AnalysisLock"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 404: components["responses"]["NoSuchAnalysis"];
            readonly 408: components["responses"]["TooSlow"];
            readonly 409: components["responses"]["AnalysisLockGone"];
            readonly 413: components["responses"]["TooLarge"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly releaseAnalysis: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** The ID of the analysis' document, 1 to 256 bytes without control characters and "/". */
                readonly analysis_id: components["parameters"]["AnalysisID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "owner_id": "worker-7",
                 *       "fencing_token": 1,
                 *       "failure_reason": "the model did not load"
                 *     }
                 */
                readonly "application/json": components["schemas"]["AnalysisReleaseRequest"];
            };
        };
        readonly responses: {
            /** The analysis is free. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "analysis_id": "a-1024",
                     *       "failures": 1,
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["AnalysisReleased"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 404: components["responses"]["NoSuchAnalysis"];
            readonly 408: components["responses"]["TooSlow"];
            readonly 409: components["responses"]["AnalysisLockGone"];
            readonly 413: components["responses"]["TooLarge"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly finishAnalysis: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** The ID of the analysis' document, 1 to 256 bytes without control characters and "/". */
                readonly analysis_id: components["parameters"]["AnalysisID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "owner_id": "worker-7",
                 *       "fencing_token": 1,
                 *       "status": "READY",
                 *       "result": "s3://results/a-1024.json"
                 *     }
                 */
                readonly "application/json": components["schemas"]["AnalysisFinishRequest"];
            };
        };
        readonly responses: {
            /** The analysis is finished. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "analysis_id": "a-1024",
                     *       "status": "READY",
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["AnalysisFinished"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 404: components["responses"]["NoSuchAnalysis"];
            readonly 408: components["responses"]["TooSlow"];
            readonly 409: components["responses"]["AnalysisLockGone"];
            readonly 413: components["responses"]["TooLarge"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly retryAnalysis: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** The ID of the analysis' document, 1 to 256 bytes without control characters and "/". */
                readonly analysis_id: components["parameters"]["AnalysisID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "request_id": "c1d2e3f4",
                 *       "owner_id": "admin",
                 *       "reason": "the model has been fixed",
                 *       "finished_at": "2026-01-01T02:00:13.000Z"
                 *     }
                 */
                readonly "application/json": components["schemas"]["AnalysisRetryRequest"];
            };
        };
        readonly responses: {
            /** The analysis waits to run, or this request retried it before. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "analysis_id": "a-1024",
                     *       "status": "PENDING",
                     *       "retry": {
                     *         "by": "admin",
                     *         "reason": "the model has been fixed",
                     *         "at": "2026-01-01T09:00:00.000Z"
                     *       },
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["AnalysisRetried"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 404: components["responses"]["NoSuchAnalysis"];
            readonly 408: components["responses"]["TooSlow"];
            /** `ANALYSIS_NOT_FAILED`: it waits to run, a worker runs it, or it is READY. `ANALYSIS_CHANGED`: it did not fail at this `finished_at`. Nothing was changed. */
            readonly 409: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            readonly 422: components["responses"]["RequestIDReused"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly listAnalyses: {
        readonly parameters: {
            readonly query?: {
                /** Only analyses whose ID begins with this. */
                readonly prefix?: string;
                /** Only analyses with this status, such as `FAILED`, in upper or lower case. */
                readonly status?: string;
                /** Only analyses in this state. */
                readonly state?: components["schemas"]["WorkState"];
                /** Only analyses whose lock this owner has, or had when it expired. */
                readonly owner_id?: string;
                /** With `true` only those that need a look, which are FAILED or STALE, or PENDING after a run that failed. */
                readonly urgent?: boolean;
                readonly page_size?: number;
                /** `next_page_token` of the page before. */
                readonly page_token?: string;
            };
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** A page of analyses. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "analyses": [
                     *         {
                     *           "analysis_id": "a-1024",
                     *           "status": "FAILED",
                     *           "finished": true,
                     *           "locked": false,
                     *           "runs": 0,
                     *           "failures": 5,
                     *           "failure_reason": "the model did not load",
                     *           "finished_at": "2026-01-01T02:00:13.000Z"
                     *         }
                     *       ],
                     *       "unreadable": [
                     *         {
                     *           "analysis_id": "a-1025",
                     *           "code": "DOCUMENT_DAMAGED"
                     *         }
                     *       ],
                     *       "counts": {
                     *         "documents": 2,
                     *         "running": 0,
                     *         "stale": 0,
                     *         "failed": 1,
                     *         "pending": 0,
                     *         "ready": 0
                     *       },
                     *       "next_page_token": "YS0xMDI1"
                     *     }
                     */
                    readonly "application/json": components["schemas"]["AnalysisPage"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly getAnalysis: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** The ID of the analysis' document, 1 to 256 bytes without control characters and "/". */
                readonly analysis_id: components["parameters"]["AnalysisID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** The analysis. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "analysis_id": "a-1024",
                     *       "status": "PENDING",
                     *       "finished": false,
                     *       "locked": true,
                     *       "owner_id": "worker-7",
                     *       "expires_at": "2026-01-01T00:05:00.000Z",
                     *       "runs": 1,
                     *       "failures": 0
                     *     }
                     */
                    readonly "application/json": components["schemas"]["Analysis"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 404: components["responses"]["NoSuchAnalysis"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly createAnalysis: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** The ID of the analysis' document, 1 to 256 bytes without control characters and "/". */
                readonly analysis_id: components["parameters"]["AnalysisID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** The document exists. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "analysis_id": "a-1024",
                     *       "status": "PENDING",
                     *       "created": true
                     *     }
                     */
                    readonly "application/json": components["schemas"]["AnalysisCreated"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 408: components["responses"]["TooSlow"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly beginRun: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** The name of the run, 1 to 256 bytes without control characters and "/". */
                readonly run_id: components["parameters"]["RunID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "owner_id": "web-3",
                 *       "request_id": "7f1c0d52",
                 *       "ttl_seconds": 30,
                 *       "fingerprint": "q1vXo2kPz0"
                 *     }
                 */
                readonly "application/json": components["schemas"]["RunBeginRequest"];
            };
        };
        readonly responses: {
            /** The lock, which lasts until `expires_at`, or the reason why it was not granted. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["RunGrant"];
                };
            };
            /** With `give_up`: nothing is held under this `request_id`, and nothing will be. */
            readonly 204: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 408: components["responses"]["TooSlow"];
            /** `TOO_LATE`: `not_after` had passed when the request came to the store; nothing was changed. `LEASE_EXPIRED`: the lock expired before the store responded. Begin again with another `request_id`. */
            readonly 409: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 413: components["responses"]["TooLarge"];
            /**
             * `RUN_DIFFERS`: the ID was used before with another `fingerprint`. `REQUEST_ID_REUSED`: this `request_id` obtained the run before, and
             *     that lock has ended, or it had another `ttl_seconds`.
             */
            readonly 422: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 429: components["responses"]["TooManyRuns"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly refreshRun: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** The name of the run, 1 to 256 bytes without control characters and "/". */
                readonly run_id: components["parameters"]["RunID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "owner_id": "web-3",
                 *       "fencing_token": 1767225600000001,
                 *       "ttl_seconds": 30
                 *     }
                 */
                readonly "application/json": components["schemas"]["RunRefreshRequest"];
            };
        };
        readonly responses: {
            /** The lock with its new expiry. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "run_id": "order-1024",
                     *       "owner_id": "web-3",
                     *       "fencing_token": 1767225600000001,
                     *       "expires_at": "2026-01-01T00:00:36.000Z",
                     *       "remaining_ms": 30000
                     *     }
                     */
                    readonly "application/json": components["schemas"]["RunLock"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 404: components["responses"]["NoSuchRun"];
            readonly 408: components["responses"]["TooSlow"];
            readonly 409: components["responses"]["AnalysisLockGone"];
            readonly 413: components["responses"]["TooLarge"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly releaseRun: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** The name of the run, 1 to 256 bytes without control characters and "/". */
                readonly run_id: components["parameters"]["RunID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "owner_id": "web-3",
                 *       "fencing_token": 1767225600000001,
                 *       "failure_reason": "the bank did not respond"
                 *     }
                 */
                readonly "application/json": components["schemas"]["RunReleaseRequest"];
            };
        };
        readonly responses: {
            /** The run is free. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "run_id": "order-1024",
                     *       "failures": 1,
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["RunReleased"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 404: components["responses"]["NoSuchRun"];
            readonly 408: components["responses"]["TooSlow"];
            readonly 409: components["responses"]["AnalysisLockGone"];
            readonly 413: components["responses"]["TooLarge"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly finishRun: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** The name of the run, 1 to 256 bytes without control characters and "/". */
                readonly run_id: components["parameters"]["RunID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                /**
                 * @example {
                 *       "owner_id": "web-3",
                 *       "fencing_token": 1767225600000001,
                 *       "status": "READY",
                 *       "result": "charge ch_1"
                 *     }
                 */
                readonly "application/json": components["schemas"]["RunFinishRequest"];
            };
        };
        readonly responses: {
            /** The run is finished. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "run_id": "order-1024",
                     *       "status": "READY",
                     *       "replayed": false
                     *     }
                     */
                    readonly "application/json": components["schemas"]["RunFinished"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 404: components["responses"]["NoSuchRun"];
            readonly 408: components["responses"]["TooSlow"];
            readonly 409: components["responses"]["AnalysisLockGone"];
            readonly 413: components["responses"]["TooLarge"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly listRuns: {
        readonly parameters: {
            readonly query?: {
                /** Only runs whose name begins with this. */
                readonly prefix?: string;
                /** Only runs in this state. */
                readonly state?: components["schemas"]["WorkState"];
                /** Only runs whose lock this owner has, or had when it expired. */
                readonly owner_id?: string;
                /** With `true` only those that need a look, which are FAILED or STALE, or PENDING after a run that failed. */
                readonly urgent?: boolean;
                readonly page_size?: number;
                /** `next_page_token` of the page before. */
                readonly page_token?: string;
            };
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** A page of runs. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "runs": [
                     *         {
                     *           "run_id": "order-1024",
                     *           "status": "READY",
                     *           "finished": true,
                     *           "locked": false,
                     *           "runs": 0,
                     *           "failures": 0,
                     *           "finished_at": "2026-01-01T00:00:02.000Z"
                     *         }
                     *       ],
                     *       "counts": {
                     *         "documents": 1,
                     *         "running": 0,
                     *         "stale": 0,
                     *         "failed": 0,
                     *         "pending": 0,
                     *         "ready": 1
                     *       }
                     *     }
                     */
                    readonly "application/json": components["schemas"]["RunPage"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly getRun: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path: {
                /** Whose lock it is, 1 to 128 bytes without control characters. With authentication, the tenant of the token. */
                readonly tenant_id: components["parameters"]["TenantID"];
                /** The name of the run, 1 to 256 bytes without control characters and "/". */
                readonly run_id: components["parameters"]["RunID"];
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** The run. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "run_id": "order-1024",
                     *       "status": "READY",
                     *       "finished": true,
                     *       "locked": false,
                     *       "runs": 0,
                     *       "failures": 0,
                     *       "result": "charge ch_1",
                     *       "finished_at": "2026-01-01T00:00:02.000Z"
                     *     }
                     */
                    readonly "application/json": components["schemas"]["Run"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 404: components["responses"]["NoSuchRun"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly getCaller: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** The caller, and the server's time. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "subject": "ann",
                     *       "tenant_id": "acme",
                     *       "administrator": false,
                     *       "worker": true,
                     *       "machine_ids": true,
                     *       "development": false,
                     *       "at": "2026-01-01T00:00:00.000Z"
                     *     }
                     */
                    readonly "application/json": components["schemas"]["CallerInfo"];
                };
            };
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly getHistory: {
        readonly parameters: {
            readonly query: {
                /** What it is: `lock`, `run`, `analysis`, `machine_ids`, `activation`. */
                readonly kind: "lock" | "run" | "analysis" | "machine_ids" | "activation";
                /** Its name; of a machine ID, its service. */
                readonly key: string;
                /** Its tenant: of locks, runs and identities. */
                readonly tenant_id?: string;
                /** The cluster of an identity. */
                readonly cluster?: string;
                readonly machine_id?: number;
                /** The time that is asked about. Without it, the latest leases are listed. */
                readonly at?: string;
            };
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** What the file says. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "kind": "lock",
                     *       "tenant_id": "acme",
                     *       "key": "deploy-prod",
                     *       "at": "2026-01-01T03:12:00.000Z",
                     *       "holders": [
                     *         {
                     *           "owner": "ci-41",
                     *           "fencing_token": 1767236400000,
                     *           "granted_at": "2026-01-01T03:00:00.000Z",
                     *           "ended_at": "2026-01-01T03:20:00.000Z",
                     *           "ended": "released",
                     *           "certain": true,
                     *           "events": [
                     *             "3DPBG6CQ2MWYSXEBN2UZVLDQG4",
                     *             "5KQ2MWYSXEBN2UZVLDQG43DPBG"
                     *           ]
                     *         }
                     *       ],
                     *       "events": 2,
                     *       "first": "2026-01-01T00:00:00.000Z",
                     *       "last": "2026-01-01T09:00:00.000Z"
                     *     }
                     */
                    readonly "application/json": components["schemas"]["LeaseHistory"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            /** `NOT_CONFIGURED`: this process writes its audit events to the log, not to a file. */
            readonly 501: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "type": "https://github.com/leasehold-dev/leasehold/blob/main/docs/reference/errors.md#not_configured",
                     *       "title": "not configured",
                     *       "status": 501,
                     *       "code": "NOT_CONFIGURED",
                     *       "retryable": false,
                     *       "detail": "this process writes its audit events to the log, not to a file: set LEASEHOLD_AUDIT_LOG, or ask leasehold audit",
                     *       "instance": "urn:request:TSVROF2X34PV5UIRLKGYTRSWCD"
                     *     }
                     */
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly listOutcomes: {
        readonly parameters: {
            readonly query?: {
                /** Only the exchange with this X-Request-Id. */
                readonly request_id?: string;
                /** Only those whose path begins with this. It does not matter which characters are escaped where none has to be. */
                readonly path?: string;
                /** Only those that were rejected or failed, or only the others. */
                readonly rejected?: boolean;
                /** Only those with a higher number. */
                readonly after?: number;
                readonly page_size?: number;
                /** `next_page_token` of the page before. */
                readonly page_token?: string;
            };
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** A page of outcomes. */
            readonly 200: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "outcomes": [
                     *         {
                     *           "number": 17,
                     *           "at": "2026-01-01T00:00:02.000Z",
                     *           "request_id": "3DPBG6CQ2MWYSXEBN2UZVLDQG4",
                     *           "method": "POST",
                     *           "path": "/v1/tenants/acme/locks/deploy-prod/acquire",
                     *           "tenant_id": "acme",
                     *           "status": 409,
                     *           "took_ms": 1.2,
                     *           "action": "lock.acquire",
                     *           "subject": "ann",
                     *           "caller_tenant": "acme",
                     *           "owner_id": "ann",
                     *           "problem": {
                     *             "type": "https://github.com/leasehold-dev/leasehold/blob/main/docs/reference/errors.md#lock_held",
                     *             "title": "lock is held",
                     *             "status": 409,
                     *             "code": "LOCK_HELD",
                     *             "retryable": true,
                     *             "owner_id": "ci-41",
                     *             "expires_at": "2026-01-01T00:00:30.000Z",
                     *             "retry_after_ms": 28000,
                     *             "instance": "urn:request:3DPBG6CQ2MWYSXEBN2UZVLDQG4"
                     *           }
                     *         }
                     *       ],
                     *       "since": "2026-01-01T00:00:00.000Z",
                     *       "forgotten": 0
                     *     }
                     */
                    readonly "application/json": components["schemas"]["OutcomePage"];
                };
            };
            readonly 400: components["responses"]["BadRequest"];
            readonly 401: components["responses"]["Unauthenticated"];
            readonly 403: components["responses"]["Forbidden"];
            readonly 429: components["responses"]["RateLimited"];
            readonly 500: components["responses"]["Internal"];
            /** `NOT_CONFIGURED`: this process does not remember outcomes, because it serves no console. */
            readonly 501: {
                headers: {
                    readonly "X-Request-Id": components["headers"]["RequestID"];
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "type": "https://github.com/leasehold-dev/leasehold/blob/main/docs/reference/errors.md#not_configured",
                     *       "title": "not configured",
                     *       "status": 501,
                     *       "code": "NOT_CONFIGURED",
                     *       "retryable": false,
                     *       "detail": "this process does not remember outcomes, because it serves no console",
                     *       "instance": "urn:request:TSVROF2X34PV5UIRLKGYTRSWCD"
                     *     }
                     */
                    readonly "application/problem+json": components["schemas"]["Problem"];
                };
            };
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
        };
    };
    readonly healthz: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** It is. */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "status": "ok",
                     *       "version": "v1.2.0",
                     *       "commit": "3f1c9a7e5b0d"
                     *     }
                     */
                    readonly "application/json": components["schemas"]["Health"];
                };
            };
            readonly 403: components["responses"]["Forbidden"];
            readonly default: components["responses"]["Internal"];
        };
    };
    readonly readyz: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** It can. */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "status": "ok"
                     *     }
                     */
                    readonly "application/json": components["schemas"]["Health"];
                };
            };
            readonly 403: components["responses"]["Forbidden"];
            readonly 503: components["responses"]["Unavailable"];
            readonly 504: components["responses"]["Timeout"];
            readonly default: components["responses"]["Internal"];
        };
    };
    readonly openapiYAML: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** The document. */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "openapi": "3.1.0"
                     *     }
                     */
                    readonly "application/yaml": Record<string, never>;
                };
            };
            readonly 403: components["responses"]["Forbidden"];
            readonly default: components["responses"]["Internal"];
        };
    };
    readonly openapiJSON: {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** The document. */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "openapi": "3.1.0"
                     *     }
                     */
                    readonly "application/json": Record<string, never>;
                };
            };
            readonly 403: components["responses"]["Forbidden"];
            readonly default: components["responses"]["Internal"];
        };
    };
}
