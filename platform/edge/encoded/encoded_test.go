package encoded

import "testing"

func TestBestEncodingFollowsTheClientsWeights(t *testing.T) {
	t.Parallel()
	for accepted, want := range map[string]string{
		"": "", "deflate": "", "identity": "", "gzip": "gzip", "br": "br", "GZIP , deflate": "gzip",
		"gzip, deflate, br, zstd": "br", "br;q=0.5, gzip": "gzip", "br;q=0.5,gzip;q=0.5": "br", "gzip;q=0": "", "br;q=0, gzip;q=0.000": "", "gzip;q=0.001": "gzip",
		"*": "br", "*;q=0": "", "br;q=0, *": "gzip", "gzip, *;q=0": "gzip", "identity, gzip;q=0.5": "", "identity;q=0.5, gzip": "gzip", "gzip; q = 1": "gzip", "br;q=x, gzip;q=0.1": "gzip",
	} {
		if got := bestEncoding(accepted); got != want {
			t.Errorf("a client that takes %q gets %q, want %q", accepted, got, want)
		}
	}
}
