package engines

// configXML is the server's configuration; its verbs are the directory, the
// native, HTTP and interserver ports, and the answer to GET /. Caches and pools
// are small because several servers share a machine, and no system log table
// is kept. The process list and threads of a test are bounded in usersXML.
const configXML = `<yandex>
  <path>%[1]s/</path>
  <tmp_path>%[1]s/tmp/</tmp_path>
  <user_files_path>%[1]s/user_files/</user_files_path>
  <format_schema_path>%[1]s/format_schemas/</format_schema_path>
  <logger>
    <level>information</level>
    <log>%[1]s/server.log</log>
    <errorlog>%[1]s/error.log</errorlog>
    <size>64M</size>
    <count>2</count>
  </logger>
  <listen_host>127.0.0.1</listen_host>
  <tcp_port>%[2]d</tcp_port>
  <http_port>%[3]d</http_port>
  <interserver_http_port>%[4]d</interserver_http_port>
  <interserver_http_host>127.0.0.1</interserver_http_host>
  <http_server_default_response>%[5]s</http_server_default_response>
  <users_config>users.xml</users_config>
  <default_profile>default</default_profile>
  <default_database>default</default_database>
  <timezone>UTC</timezone>
  <keep_alive_timeout>3</keep_alive_timeout>
  <max_concurrent_queries>500</max_concurrent_queries>
  <mark_cache_size>67108864</mark_cache_size>
  <uncompressed_cache_size>0</uncompressed_cache_size>
  <mlock_executable>false</mlock_executable>
</yandex>
`

// usersXML has the user "default" without password, from loopback only.
const usersXML = `<yandex>
  <profiles>
    <default>
      <max_threads>2</max_threads>
      <max_memory_usage>1500000000</max_memory_usage>
      <background_pool_size>4</background_pool_size>
      <background_schedule_pool_size>4</background_schedule_pool_size>
    </default>
  </profiles>
  <users>
    <default>
      <password></password>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>default</profile>
      <quota>default</quota>
    </default>
  </users>
  <quotas>
    <default><interval><duration>3600</duration></interval></default>
  </quotas>
</yandex>
`
