package fences

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"

	"github.com/leasehold-dev/leasehold/fence"
)

// GCSObject is an object of Google Cloud Storage. The token and its subject are in the metadata: each write gives the
// object another generation, on which writes are conditional.
type GCSObject struct{ Handle *storage.ObjectHandle }

var _ fence.Object = GCSObject{}

// The names of the token and of its subject in the metadata.
const (
	tokenKey   = "fencing-token"
	subjectKey = "fencing-subject"
)

// Get implements [fence.Object].
func (o GCSObject) Get(ctx context.Context) (last fence.Lease, version string, err error) {
	found, err := o.Handle.Attrs(ctx)
	if errors.Is(err, storage.ErrObjectNotExist) {
		return last, "", nil
	} else if err != nil {
		return last, "", err
	}
	if text, ok := found.Metadata[tokenKey]; ok {
		last.Subject = found.Metadata[subjectKey]
		if last.Token, err = strconv.ParseInt(text, 10, 64); err != nil {
			return fence.Lease{}, "", fmt.Errorf("%s of gs://%s/%s: %w", tokenKey, found.Bucket, found.Name, err)
		}
	}
	if last.Token > 0 && last.Subject == "" {
		return fence.Lease{}, "", fmt.Errorf("gs://%s/%s has a token and no %s", found.Bucket, found.Name, subjectKey)
	}
	return last, strconv.FormatInt(found.Generation, 10), nil
}

// Put implements [fence.Object].
func (o GCSObject) Put(ctx context.Context, data []byte, l fence.Lease, ifVersion string) error {
	only := storage.Conditions{DoesNotExist: true}
	if ifVersion != "" {
		generation, err := strconv.ParseInt(ifVersion, 10, 64)
		if err != nil {
			return err
		}
		only = storage.Conditions{GenerationMatch: generation}
	}
	w := o.Handle.If(only).NewWriter(ctx)
	w.Metadata = map[string]string{tokenKey: strconv.FormatInt(l.Token, 10), subjectKey: l.Subject}
	_, err := w.Write(data)
	if closing := w.Close(); err == nil {
		err = closing
	}
	if e, ok := errors.AsType[*googleapi.Error](err); ok && e.Code == http.StatusPreconditionFailed {
		return fmt.Errorf("%w: %w", fence.ErrChanged, err)
	}
	return err
}
