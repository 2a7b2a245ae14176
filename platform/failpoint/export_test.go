package failpoint

// Disarm disarms every point.
func Disarm() {
	for _, p := range table {
		p.armed.Store(nil)
	}
}

// Fails reports whether the point stands where an error can be returned.
func Fails(p *Point) bool { return p.fails }
