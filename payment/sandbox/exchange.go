package sandbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"stampede/payment/provider"
	"stampede/platform/base/ids"
	"stampede/platform/edge/outbound"
)

// errOtherReply marks a genuine reply of the bank to another request.
var errOtherReply = errors.New("sandbox: the reply belongs to another request")

// exchange makes one call and decodes its verified reply into out. The reply has to
// carry the request's nonce, or a recorded one could be replayed. A refusal by
// the bank is provider.ErrRefused with the bank's message. Every call may be
// repeated, because the bank processes each number once.
func (c *Client) exchange(ctx context.Context, in interface{ head() call }, out interface{ nonce() ids.ID }) error {
	head := in.head()
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("sandbox: %s: encode: %w", head.Op, err)
	}
	var refused error
	err = c.Do(ctx, outbound.Request{
		URL: c.cfg.BankURL + Prefix + "/v1/" + head.Op, Body: body, Type: "application/json",
		Head: func(h http.Header) { c.merchant.sign(h, body) },
	}, func(r outbound.Reply) error {
		// A reply that the bank did not sign counts as no answer.
		if err := c.bank.verify(r.Header, r.Body); err != nil {
			return fmt.Errorf("status %d: %w", r.Status, err)
		}
		if r.Status == http.StatusOK {
			if refused = decodeStrict(r.Body, out); refused == nil && out.nonce() != head.Nonce {
				refused = errOtherReply
			}
			return nil
		}
		refused = refusedBy(r, head.Nonce)
		if r.Status >= http.StatusInternalServerError {
			return refused
		}
		return nil
	})
	if err = cmp.Or(err, refused); err != nil {
		return fmt.Errorf("sandbox: %s: %w", head.Op, err)
	}
	return nil
}

// refusedBy returns the error that a reply other than 200 reports.
func refusedBy(r outbound.Reply, nonce ids.ID) error {
	var no errorReply
	if err := decodeStrict(r.Body, &no); err != nil {
		return fmt.Errorf("status %d: %w", r.Status, err)
	}
	if no.Code == codeNotReady && no.Nonce == nonce {
		return provider.ErrNotReady
	}
	// Only a reply that names the request and refuses its content is final; a bad
	// signature or a server error may be fixed later.
	final := r.Status == http.StatusConflict || r.Status == http.StatusUnprocessableEntity
	if final && no.Nonce == nonce {
		return fmt.Errorf("%w: %s: %s", provider.ErrRefused, no.Code, no.Message)
	}
	return fmt.Errorf("status %d: %s: %s", r.Status, no.Code, no.Message)
}
