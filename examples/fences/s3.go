// Package fences shows where a fencing token is compared when what a lock protects is an object of S3 or of Google
// Cloud Storage: copy what you need. Its tests run them against servers of their own, and package fence against
// PostgreSQL, MySQL and MariaDB:
//
//	go test -C examples/fences ./...
package fences

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/leasehold-dev/leasehold/fence"
)

// S3Object is an object of S3, or of a store that speaks its protocol with conditional writes. The token and its
// subject are the first line of the content and not in the metadata, because the ETag, on which writes are conditional,
// tells contents apart only. (In JSON it can be a member.)
type S3Object struct {
	Client      *s3.Client
	Bucket, Key string
}

var _ fence.Object = S3Object{}

// Get implements [fence.Object].
func (o S3Object) Get(ctx context.Context) (last fence.Lease, version string, err error) {
	last, _, version, err = o.Read(ctx)
	return last, version, err
}

// Read returns the content with the lease that wrote it. The version is empty if there is no object.
func (o S3Object) Read(ctx context.Context) (last fence.Lease, data []byte, version string, err error) {
	found, err := o.Client.GetObject(ctx, &s3.GetObjectInput{Bucket: &o.Bucket, Key: &o.Key})
	if code(err) == "NoSuchKey" {
		return last, nil, "", nil
	} else if err != nil {
		return last, nil, "", err
	}
	defer found.Body.Close() //nolint:errcheck // it was read to its end, or is not wanted
	body := bufio.NewReader(found.Body)
	line, err := body.ReadString('\n')
	token, subject, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	last.Subject = subject
	if err == nil {
		last.Token, err = strconv.ParseInt(token, 10, 64)
	}
	if err != nil || subject == "" {
		return fence.Lease{}, nil, "", fmt.Errorf("s3://%s/%s does not begin with a fencing token and its subject: %w", o.Bucket,
			o.Key, err)
	}
	data, err = io.ReadAll(body)
	return last, data, aws.ToString(found.ETag), err
}

// Put implements [fence.Object].
func (o S3Object) Put(ctx context.Context, data []byte, l fence.Lease, ifVersion string) error {
	body := append(fmt.Appendf(nil, "%d %s\n", l.Token, l.Subject), data...)
	in := &s3.PutObjectInput{Bucket: &o.Bucket, Key: &o.Key, Body: bytes.NewReader(body)}
	if ifVersion == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = &ifVersion
	}
	_, err := o.Client.PutObject(ctx, in)
	switch code(err) {
	case "PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey": // the last: it was deleted
		return fmt.Errorf("%w: %w", fence.ErrChanged, err)
	default:
		return err
	}
}

func code(err error) string {
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		return e.ErrorCode()
	}
	return ""
}
