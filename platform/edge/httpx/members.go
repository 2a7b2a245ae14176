package httpx

import "github.com/danielgtaylor/huma/v2"

// Member declares an extension member of problem documents, which faults set with
// With, so that a strict client knows it. Each module declares its members where it
// registers its routes; a member declared by two modules gets both descriptions. No
// member is required: which ones are present depends on the code.
func (api API) Member(name string, schema huma.Schema) {
	schemas := api.Huma.OpenAPI().Components.Schemas
	schemas.Schema(problemType, true, "Problem") // a document without routes does not have it yet
	properties := schemas.Map()["Problem"].Properties
	if before := properties[name]; before != nil {
		before.Description += "; " + schema.Description
		return
	}
	properties[name] = &schema
}
