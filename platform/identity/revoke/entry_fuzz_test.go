package revoke

import "testing"

// FuzzEntry: a parsed entry encodes to the same text, and a rejected text ends no
// token.
func FuzzEntry(f *testing.F) {
	f.Add("l:1:2")
	f.Add("u:1:2:3")
	f.Add("u:1:2")
	f.Add("l:0:2")
	f.Add("l:+1:2")
	f.Add("l:9223372036854775808:1")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parse(text)
		if err != nil {
			if e != (entry{}) {
				t.Fatalf("%q is refused with %+v", text, e)
			}
			return
		}
		if (e.login == 0) == (e.user == 0) || e.expires <= 0 {
			t.Fatalf("%q is read as %+v", text, e)
		}
		again, err := parse(e.String())
		if err != nil || again != e {
			t.Fatalf("%q becomes %q, which is read as %+v, %v", text, e, again, err)
		}
	})
}
