package keys

import "context"

// What tests look at.
var (
	NewKey     = newKey
	WellFormed = wellFormed
)

// NoteUses writes the last uses now.
func (s *Service) NoteUses(ctx context.Context) error { return s.noteUses(ctx) }
