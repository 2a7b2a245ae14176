package account

import (
	"context"
	"time"
)

// SendDue sends the due notes once.
func (s *Service) SendDue(ctx context.Context) error { return s.sendDue(ctx) }

// InviteUntil is a secret for the first admin that ends at a time.
func (s *Service) InviteUntil(end time.Time) string { return s.keys[0].inviteUntil(end) }

// WeChatState is a state for the holder of a cookie that ends at a time.
func (s *Service) WeChatState(cookie string, end time.Time) string {
	return s.keys[0].wechatState(cookie, 0, end)
}
