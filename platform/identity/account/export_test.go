package account

import "context"

// SendDue sends the due notes once.
func (s *Service) SendDue(ctx context.Context) error { return s.sendDue(ctx) }
