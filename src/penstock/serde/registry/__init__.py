"""Values whose schema is in a registry: Confluent's client, our framing.

settings    SchemaRegistry: where the registry is, and how it is used
client      what is asked of it, and which errors may pass
catalog     what a process knows: the ids of what it writes, the schemas of what it reads
framing     ids in front of the bytes or in a header
forms       what Avro, Protobuf and JSON Schema each know of their schemas (avro_form, protobuf_form, json_form)
serde       RegistrySerde, and how a serde is bound to a topic
"""
