package pg

// Null is a value in a nullable column, which has NULL in place of the zero value.
func Null[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// ValueOr is the value of a nullable column, or of a member that a request may leave out,
// and otherwise none.
func ValueOr[T any](p *T, none T) T {
	if p == nil {
		return none
	}
	return *p
}
