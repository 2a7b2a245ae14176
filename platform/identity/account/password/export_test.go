package password

// Reformat parses a PHC string and encodes it again.
func Reformat(phc string) (string, bool) {
	r, err := parse(phc)
	return r.String(), err == nil
}
