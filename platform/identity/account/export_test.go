package account

import (
	"context"
	"time"
)

// SendDue sends the due notes once.
func (s *Service) SendDue(ctx context.Context) error { return s.sendDue(ctx) }

// WeChatState is a state for the holder of a cookie that ends at a time.
func (s *Service) WeChatState(cookie string, end time.Time) string {
	return s.keys[0].wechatState(cookie, end)
}
