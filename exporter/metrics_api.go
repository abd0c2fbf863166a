package exporter

// What the API answers and what is left of its budget.
const (
	APIRequests         = prefix + "api_requests_total"
	APIRequestDuration  = prefix + "api_request_duration_seconds"
	APIBudgetLimit      = prefix + "api_budget_limit"
	APIBudgetRemaining  = prefix + "api_budget_remaining"
	APIForeignThrottles = prefix + "api_foreign_throttles_total"
	APIKeyExpiry        = prefix + "api_key_expiry_timestamp_seconds"
	APIKeyRejected      = prefix + "api_key_rejected"
)

// BuildInfo is the program itself.
const BuildInfo = prefix + "build_info"

var apiMetrics = []Metric{
	{groupAPI, APIRequests, TypeCounter,
		"Requests sent to the API, by endpoint and HTTP status." + kept,
		[]string{LabelEndpoint, LabelCode}},
	{groupAPI, APIRequestDuration, TypeHistogram,
		"How long requests to the API took, in seconds." + kept,
		[]string{LabelEndpoint}},
	{groupAPI, APIBudgetLimit, TypeGauge,
		"Requests that the budget allows in any hour; 0 is unlimited." + cached,
		[]string{LabelBudget}},
	{groupAPI, APIBudgetRemaining, TypeGauge,
		"Requests that the budget had left when the snapshot was made; absent where it is unlimited." + cached,
		[]string{LabelBudget}},
	{groupAPI, APIForeignThrottles, TypeCounter,
		"Answers 429 while our own requests had room in the budget: somebody else uses the same quota." + kept, nil},
	{groupAPI, APIKeyExpiry, TypeGauge,
		"When the API key expires, where that was configured," + epoch,
		[]string{LabelKey}},
	{groupAPI, APIKeyRejected, TypeGauge,
		"1 if the API refused the last request with the key (401, 403), else 0." + cached,
		[]string{LabelKey}},
}

var buildMetrics = []Metric{
	{groupBuild, BuildInfo, TypeGauge,
		"The program that made the values, by version, revision and Go version; its value is always 1.",
		[]string{LabelVersion, LabelRevision, LabelGoVersion}},
}
