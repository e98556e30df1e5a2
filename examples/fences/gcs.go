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

// GCSObject is an object of Google Cloud Storage. The token is in the metadata: each write gives the object another
// generation, on which writes are conditional.
type GCSObject struct{ Handle *storage.ObjectHandle }

var _ fence.Object = GCSObject{}

// tokenKey is the name of the token in the metadata.
const tokenKey = "fencing-token"

// Get implements [fence.Object].
func (o GCSObject) Get(ctx context.Context) (token int64, version string, err error) {
	found, err := o.Handle.Attrs(ctx)
	if errors.Is(err, storage.ErrObjectNotExist) {
		return 0, "", nil
	} else if err != nil {
		return 0, "", err
	}
	if text, ok := found.Metadata[tokenKey]; ok {
		if token, err = strconv.ParseInt(text, 10, 64); err != nil {
			return 0, "", fmt.Errorf("%s of gs://%s/%s: %w", tokenKey, found.Bucket, found.Name, err)
		}
	}
	return token, strconv.FormatInt(found.Generation, 10), nil
}

// Put implements [fence.Object].
func (o GCSObject) Put(ctx context.Context, data []byte, token int64, ifVersion string) error {
	only := storage.Conditions{DoesNotExist: true}
	if ifVersion != "" {
		generation, err := strconv.ParseInt(ifVersion, 10, 64)
		if err != nil {
			return err
		}
		only = storage.Conditions{GenerationMatch: generation}
	}
	w := o.Handle.If(only).NewWriter(ctx)
	w.Metadata = map[string]string{tokenKey: strconv.FormatInt(token, 10)}
	_, err := w.Write(data)
	if closing := w.Close(); err == nil {
		err = closing
	}
	if e, ok := errors.AsType[*googleapi.Error](err); ok && e.Code == http.StatusPreconditionFailed {
		return fmt.Errorf("%w: %w", fence.ErrChanged, err)
	}
	return err
}
