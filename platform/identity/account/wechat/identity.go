package wechat

// Identity is who somebody is in a WeChat app.
type Identity struct {
	AppID   string
	OpenID  string // names a person within the app
	UnionID string // names a person within all apps of one owner; often empty
}
