package loadgen

import (
	"context"
	"net/http"
)

// payAtBank presses "pay" at the address that a shopper's browser would open.
func (c *client) payAtBank(ctx context.Context, payURL string) error {
	return c.call(ctx, http.MethodPost, payURL, "", map[string]string{"action": "pay"}, nil)
}
