package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/leasehold-dev/leasehold/contracts"
)

// Operations is the client of what people who operate a server ask it.
type Operations struct{ client *Client }

// Operations returns the client of the server's operations.
func (c *Client) Operations() *Operations { return &Operations{c} }

// Caller returns who the server takes the caller for, and the server's time.
func (o *Operations) Caller(ctx context.Context) (contracts.CallerInfo, error) {
	return call(ctx, o.client, http.MethodGet, "/v1/caller", nil,
		complete(func(c contracts.CallerInfo) bool { return c.At != "" }))
}

// OutcomeQuery selects outcomes for [Operations.Outcomes]. The zero value selects all.
type OutcomeQuery struct {
	RequestID string // X-Request-Id of the exchange
	Path      string // what the escaped path begins with
	Rejected  *bool  // true: those that were rejected or failed; false: the others; nil: all
	After     int64  // only those with a higher number
	PageSize  int    // 1 to 1000; 0 means the server's default
	PageToken string // OutcomePage.NextPageToken of the page before
}

// Outcomes returns how the last requests to the process that responds ended, the newest first; it needs the
// administrator's scope. The error NOT_CONFIGURED means that the process remembers none.
func (o *Operations) Outcomes(ctx context.Context, q OutcomeQuery) (contracts.OutcomePage, error) {
	more := map[string]string{"request_id": q.RequestID, "path": q.Path, "page_token": q.PageToken}
	if q.Rejected != nil {
		more["rejected"] = strconv.FormatBool(*q.Rejected)
	}
	if q.After != 0 {
		more["after"] = strconv.FormatInt(q.After, 10)
	}
	return call(ctx, o.client, http.MethodGet, "/v1/outcomes"+listQuery(q.PageSize, more), nil,
		complete(func(p contracts.OutcomePage) bool { return p.Since != "" }))
}

// Map returns which machine IDs of a namespace are leased, and for how long.
func (m *MachineIDs) Map(ctx context.Context, space string) (contracts.MachineIDMap, error) {
	return call(ctx, m.client, http.MethodGet, "/v1/machine-ids/spaces/"+url.PathEscape(space), nil,
		complete(func(got contracts.MachineIDMap) bool { return got.Space == space && len(got.Pages) > 0 }))
}

// Clusters returns a page of the names of a tenant's clusters of placement, by ascending bytes. pageSize is 1 to 1000,
// 0 means the server's default; pageToken is the NextPageToken of the page before.
func (c *Client) Clusters(ctx context.Context, tenant string, pageSize int, pageToken string) (contracts.ClusterPage,
	error) {
	return call(ctx, c, http.MethodGet, "/v1/tenants/"+url.PathEscape(tenant)+"/clusters"+
		listQuery(pageSize, map[string]string{"page_token": pageToken}), nil,
		complete(func(p contracts.ClusterPage) bool { return p.Clusters != nil }))
}

// RemoveCluster removes a cluster that has no members, with everything that is remembered of its identities, if its
// epoch is the one that the request names: an administrator's command. Sending it again has no second effect. Errors:
// PERMISSION_DENIED without the administrator's scope; NOT_FOUND if the cluster never had a member; MEMBER_EXISTS while
// a member lives; STALE_EPOCH, with the current one, if it is another by now.
func (c *Client) RemoveCluster(ctx context.Context, tenant, cluster string,
	r contracts.ClusterRemoveRequest) (contracts.ClusterRemoved, error) {
	path := "/v1/tenants/" + url.PathEscape(tenant) + "/clusters/" + url.PathEscape(cluster) + "/remove"
	return call(ctx, c, http.MethodPost, path, r, func(got contracts.ClusterRemoved) error {
		if got.TenantID != tenant || got.Cluster != cluster || got.Epoch != r.Epoch {
			return fmt.Errorf("it is about epoch %d of the cluster %q of tenant %q, which was not asked for", got.Epoch,
				got.Cluster, got.TenantID)
		}
		return nil
	})
}
