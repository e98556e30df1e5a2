package firestore_test

import (
	"context"
	"testing"

	sdk "cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"
)

func TestSmoke(t *testing.T) {
	_, c := start(t, nil)
	ctx := t.Context()
	d := c.Doc("locks/a")
	if _, err := d.Create(ctx, m{"n": 1}); err != nil {
		t.Fatal(err)
	}
	_, err := d.Create(ctx, m{"n": 1})
	wantCode(t, err, codes.AlreadyExists)
	if _, err := d.Update(ctx, []sdk.Update{{Path: "n", Value: sdk.Increment(10)}}); err != nil {
		t.Fatal(err)
	}
	s, err := d.Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Data()["n"]; got != int64(11) {
		t.Fatalf("n = %v", got)
	}
	err = c.RunTransaction(ctx, func(ctx context.Context, tx *sdk.Transaction) error {
		s, err := tx.Get(d)
		if err != nil {
			return err
		}
		return tx.Set(d, m{"n": s.Data()["n"].(int64) + 1})
	})
	if err != nil {
		t.Fatal(err)
	}
}
