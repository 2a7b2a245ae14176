package password

// Reformat reads a PHC string and writes it back.
func Reformat(phc string) (string, bool) {
	r, err := parse(phc)
	return r.String(), err == nil
}
