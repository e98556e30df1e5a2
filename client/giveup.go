package client

import (
	"context"
	"fmt"
	"net/http"
)

// giveUp sends a request that gives up an earlier one, once: package once repeats it until it is settled. The body says
// give_up, and the response to that has no content.
func (c *Client) giveUp(ctx context.Context, path string, body any) error {
	payload, err := encode(body)
	if err != nil {
		return err
	}
	//nolint:bodyclose // send has read and closed it
	w, content, _, err := c.send(ctx, http.MethodPost, path, payload, maxResponse, nil)
	switch {
	case err != nil:
		return err
	case w.StatusCode == http.StatusNoContent:
		return nil
	case w.StatusCode == http.StatusOK:
		return fmt.Errorf("invalid response of %s: it has content, although the request gave up", c.name)
	}
	_, err = c.rejection(w, content)
	return err
}
