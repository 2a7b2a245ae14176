package wechat

// Identity identifies a person in a WeChat app.
type Identity struct {
	AppID   string
	OpenID  string // identifies a person within the app
	UnionID string // identifies a person across all apps of one owner; often empty
}
