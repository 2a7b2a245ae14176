package failpoint

// Disarm disarms every point.
func Disarm() {
	for _, p := range table {
		p.armed.Store(nil)
	}
}
