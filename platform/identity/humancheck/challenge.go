package humancheck

// Challenge is what a client must solve. Its members depend on its kind.
type Challenge struct {
	Kind      Kind   `json:"kind" enum:"none,pow,slide,verifier" doc:"What to solve; none requires nothing. It is also pow when the required verifier is down and the shop accepts a proof of work instead"`
	Challenge string `json:"challenge,omitempty" doc:"The first part of the solution of pow and slide" example:"AQEB…"`
	ExpiresAt string `json:"expires_at,omitempty" format:"date-time" doc:"When the challenge expires, by server time"`

	Difficulty int             `json:"difficulty,omitempty" minimum:"8" maximum:"26" doc:"pow: find a whole number n, 0 to 2^53-1 in decimal digits without leading zeros, so that SHA-256 of \"<challenge>.<n>\" begins with that many zero bits; send \"Human-Check: pow:<challenge>.<n>\"" example:"18"`
	Slide      *SlidePicture   `json:"slide,omitempty" doc:"slide: let the shopper drag the tile to its gap; send \"Human-Check: slide:<challenge>.<x>.<drag>\" with the tile's left edge in pixels of the background and how the shopper moved it there: 5 to 128 pairs \"<milliseconds since the first move>,<left edge>\", separated by semicolons, the last one with x. One that took under 200 ms or was exactly linear fails"`
	Verifier   *VerifierWidget `json:"verifier,omitempty" doc:"verifier: run the provider's widget; send \"Human-Check: verifier:<token>\""`
}

// SlidePicture is a slide captcha. The two images take at most 64 KiB of JSON, about
// 20 KiB on average.
type SlidePicture struct {
	Background string `json:"background" doc:"JPEG with the gap, as a data: URI"`
	Tile       string `json:"tile" doc:"PNG with transparency, as a data: URI"`
	Width      int    `json:"width" doc:"Width of the background in pixels" example:"300"`
	Height     int    `json:"height" example:"220"`
	TileX      int    `json:"tile_x" doc:"Where the tile's left edge starts" example:"12"`
	TileY      int    `json:"tile_y" doc:"Where its upper edge is; it moves only horizontally" example:"84"`
	TileWidth  int    `json:"tile_width" example:"64"`
	TileHeight int    `json:"tile_height" example:"64"`
}

// VerifierWidget is what a page passes to the verifier's script.
type VerifierWidget struct {
	SiteKey string `json:"site_key" doc:"The shop's public key at the provider"`
	Action  string `json:"action" doc:"Pass it to the widget unchanged" example:"rush"`
	Data    string `json:"cdata" doc:"Pass it to the widget unchanged: it binds the token to you"`
}
